import { expect, it } from 'vitest';
import { kafkaContainer } from './container.ts';

it('a broker in a container names the address that clients reach', () => {
  const environment = kafkaContainer.environment?.('127.0.0.1:15123');
  expect(environment).toMatchObject({
    KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT://127.0.0.1:15123',
    KAFKA_LISTENERS: 'PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093',
    KAFKA_PROCESS_ROLES: 'broker,controller',
  });
  expect(Object.keys(environment ?? {}).every((name) => /^KAFKA_[A-Z_]+$/.test(name))).toBe(true);
});
