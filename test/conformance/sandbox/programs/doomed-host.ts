// A host to be killed while one of its workers is stuck in user code: prints the workers' process ids.
import { NO_LOGGER, NO_METRICS } from '@tributary/core';
import { openIsolatedVmSandbox } from '@tributary/infra/adapters/sandbox/isolated-vm';
import { badOn, input, program } from '../suite/transformations.ts';

const sandbox = openIsolatedVmSandbox({
  processes: 2,
  metrics: NO_METRICS,
  logger: NO_LOGGER,
  watchdogMs: 600_000,
  processMib: 64_000,
});
await Promise.all(
  ['a', 'b'].map((id) => sandbox.run({ ...program('const transform = (e) => e'), id }, [input(1)])),
);
// Evades every limit inside the isolate for a minute, with the watchdog off: only the closed pipe can end it.
sandbox.run(badOn('const a = []; a[4e9] = 1; a.join("")'), [input(1, true)]).catch(() => process.exit(1));
setTimeout(() => console.log(JSON.stringify(sandbox.workerPids())), 200);
