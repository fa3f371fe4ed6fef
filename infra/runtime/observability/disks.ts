import { fullestDisk, type Logger, type Metrics, worstDiskLevel } from '@tributary/core';
import type { Config } from '../config/settings.ts';
import { configuredTopics, type KafkaRole, kafkaConnection } from '../wiring/ports/event-log.ts';
import { watchBrokerDisks } from './broker-disks.ts';
import { type DiskWatch, watchDiskSpace } from './disk-space.ts';

interface Reports {
  readonly logger: Logger;
  readonly metrics: Metrics;
}

interface DisksTools extends Reports {
  /** See `watchDiskSpace`. */
  readonly restoresBallast?: boolean;
  /** How the disks of Kafka's brokers are read and reported. Absent: they are not watched. */
  readonly brokers?: Reports & { readonly role: KafkaRole };
}

/** Watches every disk that events are kept on: that of the data folder, and those of Kafka's brokers. */
export async function watchDisks(config: Config, { brokers, ...tools }: DisksTools): Promise<DiskWatch> {
  const local = await watchDiskSpace(config, tools);
  if (brokers === undefined || config.kafkaBrokers.length === 0) return local;
  const { KafkaClient } = await import('../../adapters/event-log/kafka/index.ts');
  const { role, logger, metrics } = brokers;
  // Connections of its own: a broker answers the requests of one connection one after the other.
  const client = new KafkaClient({ connection: kafkaConnection(config, role), logger });
  const topics = [...configuredTopics(config).values()].map(({ name, partitions }) => ({
    topic: `${config.prefix}${name}`,
    partitions,
  }));
  const ours = {
    nodeIds: () => client.nodeIds(),
    logDirectories: (id: number) => client.logDirectories(id, topics),
    close: () => client.close(),
  };
  const watch = watchBrokerDisks(ours, { reserveBytes: config.diskReserveBytes, logger, metrics });
  return {
    ...local,
    level: () => worstDiskLevel(local.level(), watch.level()),
    room: () => fullestDisk(local.room(), watch.room()),
    readiness: (others) => watch.readiness(local.readiness(others)),
    close() {
      local.close();
      return watch.close();
    },
  };
}
