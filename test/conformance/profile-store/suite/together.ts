import { describe, expect, it } from 'vitest';
import { attribute, EVENT, identitiesOf } from './people.ts';
import type { Stage } from './stage.ts';

export function together(stage: Stage): void {
  describe('two stores of one installation', () => {
    it('read each other’s writes as soon as they are acknowledged', async () => {
      const here = stage.people();
      const there = here.through(stage.other());
      for (let n = 0; n < 30; n++) {
        const [writer, reader] = n % 2 === 0 ? [here, there] : [there, here];
        const made = await writer.write(['email:a@x', `cookie:c${n}`], { attributes: [attribute('n', n)] });
        expect(await reader.find(`cookie:c${n}`)).toEqual(made);
        expect(await reader.findUcid(made.ucid)).toEqual(made);
      }
      await there.delete(['email:a@x']);
      expect(await here.find('cookie:c7')).toBeUndefined();
    });

    it('never merge two users of one device, in any order of their events', async () => {
      const here = stage.people();
      const there = here.through(stage.other());
      await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          (n % 2 === 0 ? here : there).write(
            [`user_id:u${n % 4}`, `anonymous_id:d${n % 3}`, `email:${n % 5}@x`],
            EVENT,
          ),
        ),
      );
      const profiles = await here.search([0, 1, 2, 3].map((n) => `user_id:u${n}`));
      expect(profiles).toHaveLength(4);
      for (const profile of profiles)
        expect(identitiesOf(profile).filter((text) => text.startsWith('user_id:'))).toHaveLength(1);
      expect(new Set(profiles.flatMap(identitiesOf)).size).toBe(profiles.flatMap(identitiesOf).length);
    });
  });
}
