// Package desk is a hotel computer as the staff service sees it: a device with a
// key of its own, an operator who signs in at iam, and requests that prove the
// possession of the key (RFC 9449). Tests and `melmastoon desk` call the staff
// service through it; it imports nothing of that service.
package desk
