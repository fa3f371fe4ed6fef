/** A process that starts a Redis, tells of it, and waits to be killed. */
import { dirname } from 'node:path';
import { describeMachine, enginesOf } from '@tributary/infra';
import { tell } from '../helpers/child.ts';

const engine = await enginesOf(describeMachine(process.env)).redis.start();
tell({ pid: engine.pid, folder: dirname(engine.logFile) });
