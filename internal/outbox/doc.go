// Package outbox carries events from the transaction that made them to Pub/Sub:
// at least once, in order per key, with any number of relays. It knows the two
// services' table shapes and nothing of what an event means.
//
// # Writing
//
// A mutation appends its events in its own transaction: [Table.Append] inside
// one, [Table.Queue] in a pipelined batch, [Table.Statement] as a part of a
// bigger statement. What has no transaction of its own goes through an
// [Appender], which commits many callers' events with one insert.
//
// An event of more than 256 KiB, as Postgres writes it, is refused with [ErrEvent]
// before anything is sent, and with it the transaction that it should be part of: a
// caller bounds what its events hold before it has done anything else.
//
// # No row is lost
//
// Ids are minted before commit, so a reader that remembers "everything up to id
// n" walks past a row whose transaction commits late. Rows therefore carry their
// transaction, tx_id, and the reader walks (tx_id, id). Each read also takes the
// snapshot that it ran under: xmin, xmax and the transactions in progress
// between them. A row is in that snapshot exactly if its transaction was below
// xmax and not in progress. So when a read has returned everything behind its
// cursor, the cursor may move to xmax, provided that the transactions in
// progress are remembered as holes: rows with a smaller tx_id can appear only
// in one of them. Every later read asks for the rows of the holes too and
// forgets a hole once its own snapshot says that the transaction has ended,
// because then the rows, if it committed, were in that very answer. A rolled
// back transaction leaves an empty hole. If the rows of holes fill an answer,
// what it has from beyond the cursor is left for later: the rest comes before.
//
// The same rule could be had by reading only below xmin, but then one long
// transaction anywhere on the server, in another database even, would stop all
// publishing until it ends. A session that only reads has no transaction id: it
// neither makes a hole nor holds anything back.
//
// The cursor lives in memory. A relay that starts, or takes over, begins at the
// smallest row that is neither marked nor held; the table, not the cursor, is the
// truth.
//
// Marking a row means writing it anew, which costs several times what reading
// and publishing it does. While there is a backlog, a batch is therefore noted in
// a journal (the table outbox_marks) by one insert, and its rows are marked when
// the backlog is gone. A row is published if it is marked or in the journal.
//
// # Order
//
// Within one topic and ordering key (Pub/Sub orders nothing across topics) rows
// go out in the order of (tx_id, id) among what is visible. If one transaction
// committed before another was given its id, the first has the smaller tx_id and
// is visible whenever the second is, so its rows go first. Of two transactions
// that overlap neither came before the other; a late one follows.
//
// When a row fails, its key waits: rows behind it stay unpublished until it
// succeeds or, after [RelayConfig.MaxAttempts], is dead-lettered, and then the
// key moves on without it. Other keys never wait for it. Each row without a key
// is a lane of its own. A dead-lettered row that is replayed comes after what has
// been published meanwhile.
//
// # What waits is out of the way
//
// A row that failed, and every row of its lane that is read while the lane waits,
// is held: a column takes it out of the index that the main scan walks, so the
// scan reads it once however long it waits and however many wait with it. The
// table outbox_retries has one row per waiting lane with the time of its next
// attempt. A second pass tries the lanes that are due, a few rows at once, on its
// own share of the relay's time and beside the main scan's publishing.
//
// A row is held, and its lane entered, in one transaction, which comes before
// the next read of the main scan. So each row that the scan reads is in one of
// three cases: its lane was entered before, and the read itself says so; its lane
// was blocked by a row that was read earlier and is not written yet, which the
// session remembers until its next read; or nothing of its lane waits. Only the
// third is published. A lane is removed by a statement that finds no held row of
// it, after those of the same transaction that hold rows. The relay can thus die
// at any point: what it had not written is not held and is found by the main
// scan, from its beginning and in order; what it had written is found in
// outbox_retries.
//
// # Outages
//
// If all of a batch fails for reasons that are Pub/Sub's and not the rows', the
// relay pauses and tries again without writing anything or counting attempts: an
// outage of an hour must not dead-letter the backlog. If only some rows fail
// while others pass, the failure is theirs and counts.
//
// A topic that is missing, or that we may not publish to, is an outage of that
// topic: its rows are held without an attempt being counted, one of them is tried
// from time to time, and all go out once that one does. [Relay.TopicsDown] and
// the log tell.
//
// # Rows that are too large
//
// A row may be in the table all the same, written by an older release or by hand: of
// a few kilobytes of jsonb, Postgres can write a gigabyte of text. The relay takes no
// message of more than maxMessage from the server and no answer of more than
// maxAnswer. A read that fails, for this or any reason, is followed by careful ones, of
// a few rows each: Postgres then writes only what is small and says which rows are not,
// and those are dead-lettered at once, each by itself. The relay reads as before when
// there is no more, or when enough reads have found none.
//
// # Many relays
//
// A session advisory lock makes one relay the leader; the others try for it
// about once a second. It reads and marks on the connection that holds the lock:
// when that connection is gone it can do neither, and Postgres gives the lock to
// the next. A relay that dies between publishing and marking leaves at most the
// rows of its window ([RelayConfig.Batch]) and its retries to be published again.
//
// # Waking
//
// [Relay.Wake] is called after a commit. In the leader's own process it is an
// atomic flag; elsewhere a [Notifier] sends a debounced NOTIFY on a connection of
// its own. NOTIFY inside the writers' transactions would make their commits queue
// for one lock of the whole server. A slow poll stands behind both.
package outbox
