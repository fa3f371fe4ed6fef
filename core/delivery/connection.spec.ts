import { describe, expect, it } from 'vitest';
import { connectionChange } from './connection.ts';

const about = { by: 'ann', at: '2026-01-01T00:00:00.000Z' } as const;
const connection = { state: 'connected', turns: 3, ...about } as const;
const disconnected = { ...about, type: 'destination.disconnected', data: {} } as const;

describe('a destination that is disconnected', () => {
  it('is paused until it is connected again', () => {
    expect(connectionChange({ connection, paused: false, paused_because: null }, disconnected)).toMatchObject(
      {
        paused: true,
        paused_because: { reason: 'not_connected' },
      },
    );
  });

  it('keeps the pause of a person, which its next connection ended', () => {
    const change = connectionChange({ connection, paused: true, paused_because: null }, disconnected);
    expect(change).not.toHaveProperty('paused_because');
    expect(change).not.toHaveProperty('paused');
  });
});
