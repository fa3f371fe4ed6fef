import { join } from 'node:path';
import type { SecuredListeners } from './secured-listeners.ts';

export interface BrokerPorts {
  readonly plain: number;
  readonly controller: number;
}

/** Settings of a broker by name. */
export type Properties = Readonly<Record<string, string | number | boolean>>;

/** One broker that is its own controller, with few threads and small internal topics: it starts and restarts quickly. */
export function brokerProperties(folder: string, ports: BrokerPorts, secured?: SecuredListeners): Properties {
  const listeners = [`PLAINTEXT://127.0.0.1:${ports.plain}`, ...(secured?.listeners ?? [])];
  const controller = `CONTROLLER://127.0.0.1:${ports.controller}`;
  const protocols = ['CONTROLLER:PLAINTEXT', 'PLAINTEXT:PLAINTEXT', ...(secured?.protocols ?? [])];
  return {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.bootstrap.servers': `127.0.0.1:${ports.controller}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    listeners: [...listeners, controller].join(','),
    'advertised.listeners': listeners.join(','),
    'listener.security.protocol.map': protocols.join(','),
    'log.dirs': join(folder, 'data'),
    'auto.create.topics.enable': false,
    'offsets.topic.replication.factor': 1,
    'offsets.topic.num.partitions': 10,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'transaction.state.log.num.partitions': 10,
    'group.initial.rebalance.delay.ms': 0,
    'group.min.session.timeout.ms': 1_000,
    // A killed broker may register again only when its last session has expired; the partitions of one that is silent for
    // longer lose their leader, which a busy machine must not cause.
    'broker.session.timeout.ms': 6_000,
    'broker.heartbeat.interval.ms': 500,
    'log.segment.bytes': 64 * 1024 * 1024,
    'log.index.size.max.bytes': 1024 * 1024,
    'log.cleaner.dedupe.buffer.size': 4 * 1024 * 1024,
    'num.network.threads': 2,
    'num.io.threads': 4,
    'background.threads': 2,
    'num.recovery.threads.per.data.dir': 2,
    ...secured?.properties,
  };
}

export function propertiesText(properties: Properties): string {
  return Object.entries(properties)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('');
}
