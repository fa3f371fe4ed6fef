import { parentPort } from 'node:worker_threads';
import { NO_LOGGER, NO_METRICS, Unavailable } from '@tributary/core';
import { createConnectors } from '../registry.ts';

// A thread has modules of its own: other specs of the process may have read a definition, this thread has not.
const opened = (wrapper: readonly string[]) =>
  createConnectors({
    egressAllow: [],
    dataFolder: '/nonexistent',
    clock: Date.now,
    logger: NO_LOGGER,
    metrics: NO_METRICS,
    confinement: { uid: 0, wrapper },
  });
const type = 'segment-braze';
const [broken, connectors] = [opened(['/bin/false']), opened([])];
const isUnavailable = await broken.prepare(type).then(
  () => false,
  (error: unknown) => error instanceof Unavailable,
);
// Both callers wait for the same process.
await Promise.all([connectors.prepare(type), connectors.prepare(type)]);
const { actions = [], details } = connectors.descriptions.get(type) ?? {};
const read = details?.().actions.map(({ action }) => action);
await Promise.all([broken.close(), connectors.close()]);
parentPort?.postMessage({ isUnavailable, actions, read });
