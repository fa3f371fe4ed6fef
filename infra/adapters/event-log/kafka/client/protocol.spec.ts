import { describe, expect, it } from 'vitest';
import { connectionHint } from './brokers.ts';
import { translateKafkaError } from './protocol.ts';

/** As kafkajs throws it. */
function thrownAs(name: string, message: string, fields: object = {}): Error {
  return Object.assign(new Error(message), { name, broker: 'k:9092', ...fields });
}

describe('metadata of a broker', () => {
  it.each([
    [
      'Closed connection',
      thrownAs('KafkaJSConnectionClosedError', 'Closed connection'),
      'the broker k:9092 closed the connection',
    ],
    [
      'Connection error: connect ECONNREFUSED 10.0.0.7:9092',
      thrownAs('KafkaJSConnectionError', 'Connection error: connect', { code: 'ECONNREFUSED' }),
      'the broker k:9092 cannot be reached (ECONNREFUSED)',
    ],
    [
      'the same within an error that counts retries',
      thrownAs('KafkaJSNumberOfRetriesExceeded', 'Connection timeout', {
        cause: thrownAs('KafkaJSConnectionError', 'Connection timeout'),
      }),
      'the broker k:9092 did not accept a connection in time',
    ],
    [
      'words of OpenSSL',
      thrownAs(
        'KafkaJSConnectionError',
        'Connection error: C0:error:0A00010B:SSL routines::wrong version number',
      ),
      'TLS with the broker k:9092 failed (C0:error:0A00010B:SSL routines::wrong version number)',
    ],
  ])('was kafkajs’s word: %s', (_, thrown, words) => {
    expect(translateKafkaError(thrown, 'listing offsets').message).toBe(`Kafka: listing offsets: ${words}`);
  });

  it('was only "Closed connection" where the listener expects TLS or a sign-in', () => {
    const closed = thrownAs('KafkaJSConnectionClosedError', 'Closed connection');
    const said = (connection: Parameters<typeof connectionHint>[0]) =>
      translateKafkaError(closed, 'making topics', connectionHint(connection)).message;
    expect(said({})).toBe(
      'Kafka: making topics: the broker k:9092 closed the connection; does this listener expect TLS (KAFKA_TLS=1), or a sign-in (KAFKA_SASL_MECHANISM)?',
    );
    expect(said({ tls: {} })).toMatch(/no TLS \(KAFKA_TLS=0\).*a sign-in \(KAFKA_SASL_MECHANISM\)\?$/);
    const sasl = { mechanism: 'plain', username: 'u', password: 'hidden' } as const;
    expect(said({ sasl })).toMatch(/TLS \(KAFKA_TLS=1\), or another KAFKA_SASL_MECHANISM\?$/);
    expect(said({ sasl })).not.toContain('hidden');
  });
});
