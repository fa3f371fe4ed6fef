import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunningEngine } from '../engine.ts';
import type { Machine } from '../machine.ts';
import type { Command } from '../native/native-engine.ts';
import { startNative } from '../native/native-engine.ts';
import { freePort } from '../native/ports.ts';
import { runTool } from '../native/run-tool.ts';
import { answersKafka } from './answers.ts';
import { clusterId, javaFlags, kafkaProgram } from './native.ts';
import { type BrokerPorts, brokerProperties, propertiesText } from './properties.ts';

const BROKERS = [1, 2, 3] as const;

/** Three replicas of everything, two of them required. */
const REPLICATED = {
  'default.replication.factor': 3,
  'min.insync.replicas': 2,
  'offsets.topic.replication.factor': 3,
  'transaction.state.log.replication.factor': 3,
  'transaction.state.log.min.isr': 2,
};

/**
 * Three brokers of one cluster, each also a controller, as native processes: for tests in which leaders and
 * coordinators move. Each is killed, paused and restarted individually; the caller stops them all.
 */
export async function startKafkaCluster(machine: Machine): Promise<readonly RunningEngine[]> {
  const ports = await Promise.all(
    BROKERS.map(
      async (): Promise<BrokerPorts> => ({ plain: await freePort(), controller: await freePort() }),
    ),
  );
  const id = clusterId();
  const starts = await Promise.allSettled(
    BROKERS.map((node) =>
      startNative({
        name: `kafka-${node}`,
        logFolder: undefined,
        prepare: (folder) => prepareNode(machine, folder, { id, node, ports }),
      }),
    ),
  );
  const started = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []));
  const failed = starts.find((start) => start.status === 'rejected');
  if (!failed) return started;
  await Promise.all(started.map((broker) => broker.stop()));
  throw failed.reason;
}

interface Node {
  readonly id: string;
  readonly node: number;
  /** Of all nodes, in order. */
  readonly ports: readonly BrokerPorts[];
}

async function prepareNode(machine: Machine, folder: string, { id, node, ports }: Node): Promise<Command> {
  const { java, classpath } = await kafkaProgram(machine);
  const env = machine.engineEnv;
  const mine = ports[node - 1];
  if (!mine) throw new Error(`no ports for node ${node}`);
  const { 'controller.quorum.bootstrap.servers': _, ...properties } = brokerProperties(folder, mine);
  const voters = ports.map(({ controller }, i) => `${i + 1}@127.0.0.1:${controller}`).join(',');
  const config = join(folder, 'server.properties');
  await writeFile(
    config,
    propertiesText({ ...properties, ...REPLICATED, 'node.id': node, 'controller.quorum.voters': voters }),
  );
  await mkdir(join(folder, 'tmp'));
  const flags = javaFlags(machine, folder);
  const format = ['kafka.tools.StorageTool', 'format', '-t', id, '-c', config];
  await runTool(java, ['-XX:TieredStopAtLevel=1', ...flags, '-cp', classpath, ...format], { env });
  const url = `127.0.0.1:${mine.plain}`;
  return {
    command: java,
    args: [...flags, '-cp', classpath, 'kafka.Kafka', config],
    env,
    url,
    isReady: () => answersKafka(url),
    missing: 'the JDK found has no bin/java',
  };
}
