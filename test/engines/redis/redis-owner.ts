/** A process that starts a Redis, reports its address, and waits to be killed. */
import { dirname } from 'node:path';
import { tell } from '../../helpers/child.ts';
import { ownEngines } from '../../helpers/own-engines.ts';

const engine = await ownEngines().redis.start();
tell({ pid: engine.pid, folder: dirname(engine.logFile) });
