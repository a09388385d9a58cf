// The desk is brought back without a line. Nothing of the house is kept for that: it is in IndexedDB, sealed.
import '../kit/shellworker.js';
