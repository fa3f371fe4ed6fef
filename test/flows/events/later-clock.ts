/**
 * Loaded into a command by NODE_OPTIONS: its clock is ahead by the milliseconds in `TEST_LATER_MS`, as if the
 * command had been started that much later.
 */
const laterMs = Number(process.env.TEST_LATER_MS ?? 0);
const now = Date.now.bind(Date);
Date.now = () => now() + laterMs;
