import type { ContainerSpec } from '../docker/docker-engine.ts';
import { answersKafka } from './answers.ts';
import { brokerProperties, type Properties } from './properties.ts';
import { KAFKA_VERSION } from './version.ts';

const PORT = 9092;
const CONTROLLER_PORT = 9093;

/**
 * The same broker in a container: it listens on every address inside, and advertises the one that clients can
 * reach.
 */
export const kafkaContainer: ContainerSpec = {
  name: 'kafka',
  image: `apache/kafka:${KAFKA_VERSION}`,
  port: PORT,
  environment: (address) => ({
    ...environmentOf({
      ...brokerProperties('/tmp', { plain: PORT, controller: CONTROLLER_PORT }),
      'controller.quorum.voters': `1@127.0.0.1:${CONTROLLER_PORT}`,
      listeners: `PLAINTEXT://0.0.0.0:${PORT},CONTROLLER://127.0.0.1:${CONTROLLER_PORT}`,
      'advertised.listeners': `PLAINTEXT://${address}`,
    }),
    KAFKA_HEAP_OPTS: '-Xms256m -Xmx1g',
  }),
  url: (address) => address,
  isReady: answersKafka,
};

/**
 * In the form that the image expects; it formats the storage itself, for voters and not for bootstrap
 * servers.
 */
export function environmentOf(properties: Properties): Readonly<Record<string, string>> {
  const entries = Object.entries(properties).filter(([key]) => key !== 'controller.quorum.bootstrap.servers');
  return Object.fromEntries(
    entries.map(([key, value]) => [`KAFKA_${key.toUpperCase().replaceAll('.', '_')}`, String(value)]),
  );
}
