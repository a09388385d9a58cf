//go:build !nocloud

package main

// gs:// for the audit lake. Here, because it brings the cloud's client along; builds
// for tests leave it out (-tags nocloud), which saves a minute of compiling.
import _ "gocloud.dev/blob/gcsblob"
