import type { Profile } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { recordTexts } from './search.ts';

/** A profile with an attribute of this many bytes. */
function profile(n: number, bytes: number): Profile {
  return {
    org: 1,
    region: 'eu',
    ucid: `01890000-0000-7000-8000-${String(n).padStart(12, '0')}`,
    created_ts: 1,
    updated_ts: 2,
    version: 1,
    identities: [{ type: 'AdId', value: 'ä', ts: 1 }],
    attributes: [{ path: ['home', 'text'], value: 'x'.repeat(bytes), ts: 1 }],
    preferences: [],
    consents: [],
    linked: [],
  };
}

const profiles = (count: number, bytes: number) => Array.from({ length: count }, (_, n) => profile(n, bytes));

describe('the text of a search result', () => {
  it('is refused when it would be too long, and the reason states the remedy', async () => {
    const refused = recordTexts(profiles(11, 1_000), 10_000);
    await expect(refused).rejects.toMatchObject({
      status: 400,
      details: [{ path: '/search', message: expect.stringMatching(/search for fewer values at a time$/) }],
    });
  });

  it('lets others have their turns while it is made', async () => {
    let turns = 0;
    let isMade = false;
    const count = () => {
      if (isMade) return;
      turns++;
      setImmediate(count);
    };
    setImmediate(count);
    await recordTexts(profiles(30, 1_000_000));
    isMade = true;
    expect(turns).toBeGreaterThan(2);
  });
});
