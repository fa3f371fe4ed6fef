import type { Logger } from '@tributary/core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { oncePerCause } from './logger.ts';

interface Line {
  readonly level: string;
  readonly fields: object;
  readonly message: string;
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function opened() {
  const lines: Line[] = [];
  const at = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, fields, message });
  const logger: Logger = { debug: () => {}, info: at('info'), warn: at('warn'), error: at('error') };
  return { lines, logger: oncePerCause(logger) };
}

describe('the log in an incident', () => {
  it('had hundreds of lines for a broker that was away for 15 s', () => {
    const { lines, logger } = opened();
    const errors = [
      'Kafka: sending a heartbeat: the broker 10.0.0.7:9092 cannot be reached (ECONNREFUSED)',
      'Kafka: listing offsets: NOT_LEADER_FOR_PARTITION',
      'Kafka: storing positions: no answer within 25000 ms',
    ];
    for (let second = 0; second < 15; second++) {
      for (const [n, stage] of ['count', 'validate', 'route'].entries()) {
        logger.warn({ group: stage, error: errors[n] }, 'joins the group again');
        logger.warn({ stage, topic: 't', partition: n, error: errors[n] }, 'commit will be repeated');
      }
      vi.advanceTimersByTime(1_000);
    }
    expect(lines).toHaveLength(1);
    vi.advanceTimersByTime(60_000);
    expect(lines).toHaveLength(2);
    expect(lines[1]).toEqual({
      level: 'warn',
      message: 'Kafka: the same cause again within 60 s',
      fields: {
        cause: 'Kafka',
        repeated: 89,
        messages: { 'joins the group again': 44, 'commit will be repeated': 45 },
        stages: ['count', 'validate', 'route'],
      },
    });
    // The incident is over, so the next warning is logged again.
    vi.advanceTimersByTime(120_000);
    expect(lines).toHaveLength(2);
    logger.warn({ error: errors[0] }, 'commit will be repeated');
    expect(lines).toHaveLength(3);
  });

  it('did not show which engine a start waited for, because another part waited for the same engine', () => {
    const { lines, logger } = opened();
    logger.warn({ error: 'Kafka: no answer' }, 'the catalog cannot be read; trying again');
    for (let n = 0; n < 3; n++)
      logger.warn({ error: 'Kafka: no answer' }, 'making it: not possible yet; trying again');
    expect(lines).toHaveLength(2);
  });

  it('counts each minute of a continuing incident', () => {
    const { lines, logger } = opened();
    for (let minute = 0; minute < 3; minute++) {
      for (let n = 0; n < 10; n++) logger.warn({ error: 'OOM command not allowed' }, 'Redis does not answer');
      vi.advanceTimersByTime(60_000);
    }
    expect(lines.map(({ fields }) => 'repeated' in fields && fields.repeated)).toEqual([false, 9, 10, 10]);
  });

  it('keeps engines, destinations and errors apart', () => {
    const { lines, logger } = opened();
    logger.warn({ error: 'Kafka: reading: no answer' }, 'repeated');
    logger.warn({ error: 'Redis: no answer' }, 'repeated');
    for (const destination of ['a', 'b']) logger.warn({ destination, error: 'gone' }, 'paused');
    logger.error({ error: 'Kafka: reading: no answer' }, 'entry dead-lettered');
    logger.error({ error: 'Kafka: reading: no answer' }, 'entry dead-lettered');
    logger.warn({ destination: 'a', state: 'bad' }, 'a destination turned');
    logger.warn({ destination: 'a', state: 'bad' }, 'a destination turned');
    expect(lines).toHaveLength(8);
  });

  it('had a line of each connection when the engine answered again', () => {
    const { lines, logger } = opened();
    for (let n = 0; n < 7; n++) logger.info({ nodes: 'r:6379' }, 'Redis answers again');
    for (const group of ['count', 'route']) logger.info({ group }, 'partitions assigned');
    expect(lines).toHaveLength(3);
  });
});
