// Runs alone: it checks times and pauses beside programs that use all available resources.
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra';
import { describeHostileCode } from '../suite/hostile.conformance.ts';
import { describeSandbox } from '../suite/sandbox.conformance.ts';

const COMMON = { metrics: NO_METRICS, logger: NO_LOGGER };
/**
 * Each piece of hostile code runs until a limit ends it. The short form lowers the limits; the code and the
 * way it ends are the same.
 */
const LIMITS =
  process.env.TRIBUTARY_TEST_LONG === undefined
    ? {
        eventMs: 50,
        watchdogMs: 250,
        isolateMib: 32,
        recycleAboveMib: 24,
        processMib: 288,
        restartDelayMs: 50,
      }
    : {};

describeSandbox('isolated-vm', () => openIsolatedVmSandbox({ processes: 1, ...COMMON, restartDelayMs: 50 }));
describeHostileCode(
  'isolated-vm',
  () => openIsolatedVmSandbox({ processes: 2, ...COMMON, ...LIMITS }),
  new URL('./control.ts', import.meta.url),
);
