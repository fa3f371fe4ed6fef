import { dockerAnswers } from '../docker/docker-answers.ts';
import { startContainer } from '../docker/docker-engine.ts';
import type { Engine, RunningEngine } from '../engine.ts';
import type { Machine } from '../machine.ts';
import { startNative } from '../native/native-engine.ts';
import { kafkaContainer } from './container.ts';
import { prepareKafka } from './native.ts';
import type { Properties } from './properties.ts';
import type { KafkaSecurity } from './secured-listeners.ts';

export interface KafkaOptions {
  /** Also listen with TLS, with SASL (plain, scram-sha-256, scram-sha-512), and with both. */
  readonly secured?: boolean;
  /** Settings of the broker that override the defaults. */
  readonly settings?: Properties;
}

export interface RunningKafka extends RunningEngine {
  /** Access to the secured listeners, where they were requested. */
  readonly security: KafkaSecurity | undefined;
}

/**
 * One Kafka broker. `url` is its `host:port` without encryption or authentication. With secured listeners or
 * custom settings it is always native.
 */
export function kafkaEngine(machine: Machine): Engine<KafkaOptions, RunningKafka> {
  return {
    name: 'kafka',
    async start({ secured = false, settings, logFolder } = {}) {
      if (!secured && settings === undefined && (await dockerAnswers(machine.dockerHost)))
        return Object.assign(await startContainer(kafkaContainer, logFolder), { security: undefined });
      let security: KafkaSecurity | undefined;
      const prepare = async (folder: string) => {
        const prepared = await prepareKafka(machine, folder, { secured, settings });
        security = prepared.security;
        return prepared.command;
      };
      const running = await startNative({ name: 'kafka', logFolder, prepare });
      return Object.assign(running, { security });
    },
  };
}
