import { openMemoryRateLimiter } from '@tributary/infra';
import { rateLimiterConformance } from '../suite/rate-limiter.conformance.ts';

rateLimiterConformance({
  name: 'in-process',
  open: async (perMinute) => openMemoryRateLimiter({ perMinute, clock: Date.now }),
  dispose: async () => {},
});
