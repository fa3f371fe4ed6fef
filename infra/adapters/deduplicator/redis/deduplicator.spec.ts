import { describe, expect, it } from 'vitest';
import { RecentWins } from './index.ts';

const win = (key: string) => ({ key, bucket: 'b', position: 'p', mark: '' as const });

describe('recent wins', () => {
  it('are kept for a time before the newest', () => {
    const wins = new RecentWins({ keptMs: 100, limit: 1_000 });
    wins.add([win('a')], 0);
    wins.add([win('b')], 50);
    wins.add([win('c')], 150);
    expect(wins.all().map(({ key }) => key)).toEqual(['b', 'c']);
    wins.add([], 1_000);
    expect(wins.all()).toHaveLength(2);
  });

  it('are bounded in number, except for the newest batch', () => {
    const wins = new RecentWins({ keptMs: 1_000, limit: 3 });
    wins.add([win('a'), win('b')], 0);
    wins.add([win('c'), win('d')], 1);
    expect(wins.all().map(({ key }) => key)).toEqual(['c', 'd']);
    wins.add(['e', 'f', 'g', 'h'].map(win), 2);
    expect(wins.all()).toHaveLength(4);
  });
});
