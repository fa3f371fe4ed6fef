import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '../helpers/client.ts';
import { adminOf } from '../helpers/cluster.ts';
import { scrape } from '../helpers/running-tributary.ts';
import { ServerProcess } from '../helpers/server-process.ts';
import type { Installation, Wiring } from './installation.ts';
import { startGateway } from './installation.ts';

/** A gateway and processors in separate processes on the engines. */
export interface Cluster {
  readonly installation: Installation;
  readonly owner: Client;
  readonly producer: Client;
  readonly gatewayPid: number;
  /** `tributary processor`, with all stages or these. Resolves before it is ready. */
  startProcessor(stages?: readonly string[]): ServerProcess;
  /** Ends all processes and removes their data. */
  remove(): Promise<void>;
}

/** Starts the gateway of a new installation; the caller starts its processors. */
export async function startCluster(
  wiring: Wiring,
  settings: Readonly<Record<string, string>> = {},
): Promise<Cluster> {
  const installation = wiring.install(settings);
  const gateway = await startGateway(installation);
  const processors: ServerProcess[] = [];
  return {
    installation,
    owner: gateway.owner,
    producer: gateway.producer,
    gatewayPid: gateway.pid,
    startProcessor(stages) {
      const chosen = stages === undefined ? [] : ['--stages', stages.join(',')];
      const processor = new ServerProcess(['processor', ...chosen], installation.env);
      processors.push(processor);
      return processor;
    },
    async remove() {
      await Promise.all(processors.map((processor) => processor.stop()));
      await gateway.stop();
      await installation.remove();
    },
  };
}

const SAMPLE_MS = 250;

/** Resolves when a processor has worked a backlog off. */
export async function workedOff(processor: ServerProcess): Promise<void> {
  while ((await lagOf(await adminOf(processor))) !== 0) await sleep(SAMPLE_MS);
}

/** Lag in records, summed over all stages of a process by its admin port; undefined until it has joined their groups. */
export async function lagOf(adminUrl: string): Promise<number | undefined> {
  const text = await scrape(adminUrl);
  const lags = [...text.matchAll(/^tributary_stage_lag_records\{[^}]*\} (\d+)/gm)].map(([, lag]) =>
    Number(lag),
  );
  return lags.length === 0 ? undefined : lags.reduce((sum, lag) => sum + lag, 0);
}
