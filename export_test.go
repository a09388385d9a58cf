package bff

// SetLast makes bits the last that a Sequence handed out.
func SetLast(s *Sequence, bits [16]byte) { s.last = bits }
