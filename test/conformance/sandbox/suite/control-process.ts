import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Sandbox } from '@tributary/core';
import { type Latencies, NeighbourLoad } from './neighbour-load.ts';

type ToControl = 'reset' | 'latencies';

/**
 * The same load as the neighbour's, at the same time on the same machine, in a process with a sandbox of its own: what
 * delays it is other work of the machine, not the sandbox that runs hostile code.
 */
export interface ControlProcess {
  reset(): Promise<void>;
  latencies(): Promise<Latencies>;
  close(): Promise<void>;
}

/** `script`: opens a sandbox and passes it to `serveControl`. */
export function startControl(script: URL): ControlProcess {
  const child = fork(script, {
    execArgv: ['--disable-warning=ExperimentalWarning'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const ask = async (message: ToControl): Promise<Latencies> => {
    child.send(message);
    const [answer] = (await once(child, 'message')) as [Latencies];
    return answer;
  };
  return {
    async reset() {
      await ask('reset');
    },
    latencies: () => ask('latencies'),
    async close() {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}

/** The main function of the process. */
export function serveControl(sandbox: Sandbox): void {
  const load = new NeighbourLoad(sandbox);
  process.on('message', (message: ToControl) => {
    const reply = async () => {
      await load.warmedUp;
      if (message === 'reset') load.reset();
      process.send?.(await load.latencies());
    };
    void reply();
  });
  process.on('disconnect', () => process.exit());
}
