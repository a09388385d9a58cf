// Package booking hands guests over to a hotel's own booking: it signs the hand-off and
// compares the price that the guest was shown with the price of now.
package booking
