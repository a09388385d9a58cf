import { createBooking } from './booking.js';

const port = Number(process.env['BOOKING_PORT'] ?? 8086);
createBooking(process.env).listen(port, '127.0.0.1', () => {
  console.log(`Hand-offs arrive at http://127.0.0.1:${port}/{tenantSlug}/book?h={token}`);
});
