import { describe, expect, it } from 'vitest';
import { type StreamSlot, StreamSlots } from './live-events.ts';

const LIMITS = { streams: 20, workspaceStreams: 6, organizationStreams: 9, accountStreams: 8 };

function setUp(limits: Partial<typeof LIMITS> = {}) {
  const slots = new StreamSlots({ ...LIMITS, ...limits });
  const evicted: string[] = [];
  const open = (accountId: string, workspaceId: string, organizationId = `of ${workspaceId}`): StreamSlot => {
    const slot = slots.acquire({ accountId, workspaceId, organizationId });
    slot.evict = () => evicted.push(accountId);
    return slot;
  };
  const refusal = (...[accountId, workspaceId, organizationId]: Parameters<typeof open>) => {
    try {
      open(accountId, workspaceId, organizationId);
    } catch (error) {
      return (error as { fields: { quota: string } }).fields.quota;
    }
    return undefined;
  };
  const fill = (account: string, workspace: (n: number) => string, count: number) =>
    Array.from({ length: count }, (_, n) => open(account, workspace(n)));
  return { slots, evicted, open, refusal, fill };
}

describe('slots for live streams', () => {
  it('are bounded by workspace, and by organization over all accounts', () => {
    const { refusal, open, slots } = setUp();
    for (let n = 0; n < LIMITS.workspaceStreams; n++) open(`person ${n}`, 'w', 'o');
    expect(refusal('x', 'w', 'o')).toBe('live_streams_of_workspace');
    for (let n = 0; n < 3; n++) open(`person ${n}`, `w${n}`, 'o');
    expect(refusal('x', 'w7', 'o')).toBe('live_streams_of_organization');
    expect(slots.total).toBe(9);
  });

  it('were all used by the first accounts: an account with fewer streams gets one from the account with most', () => {
    const { slots, evicted, refusal, open, fill } = setUp();
    fill('ann', (n) => `a${n}`, 8);
    fill('bob', (n) => `b${n}`, 8);
    fill('eve', (n) => `e${n}`, 4);
    for (let n = 0; n < 5; n++) open('dan', `d${n}`);
    expect(slots.total).toBe(LIMITS.streams);
    expect(evicted.toSorted()).toEqual(['ann', 'ann', 'ann', 'bob', 'bob']);
    // An account is never evicted for another that would then have at least as many streams.
    expect(refusal('dan', 'd6')).toBe('live_streams');
    expect(refusal('ann', 'a9')).toBe('live_streams');
    for (let n = 0; n < 4; n++) open(`newcomer ${n}`, `n${n}`);
    expect(slots.total).toBe(LIMITS.streams);
  });

  it('are released once, also by a stream that was ended in favour of another', () => {
    const { slots, open } = setUp({ streams: 3 });
    const held = [open('ann', 'a'), open('ann', 'a'), open('ann', 'a')];
    const other = open('bob', 'b');
    expect(slots.total).toBe(3);
    for (const place of [...held, ...held, other]) slots.release(place);
    expect(slots.total).toBe(0);
    open('ann', 'a');
    expect(slots.total).toBe(1);
  });
});
