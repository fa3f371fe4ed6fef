import { joinAttributes } from './attributes.ts';
import type { HiddenValues, Profile, Register } from './profile.ts';
import { compareText, joinNamed, keptIfSame } from './registers.ts';

/*
 * A profile has a part for each profile that was merged into it, and for each identity that events were about and that they
 * may take to another profile. Of each value the newest counts, whichever part it is of. What a newer value of another part
 * hides is kept, so that each part says what its own sources said when it is taken out.
 */

/** Hidden values of a kind at most; beyond, the oldest are lost. */
const MAX_HIDDEN = 2_000;

type Values = Pick<Profile, 'attributes' | 'preferences' | 'consents'> & {
  readonly hidden?: HiddenValues | undefined;
};

const NO_VALUES = { attributes: [], preferences: [], consents: [] } as const;

/**
 * Merges the values of two states of a profile. Lists of `left` themselves where `right` has nothing newer.
 * `hasParts`: the profile has several parts although these values show one at most.
 */
export function joinValues(left: Values, right: Values, hasParts = false): Values {
  if (!hasParts && left.hidden === undefined && right.hidden === undefined && areOfOnePart(left, right))
    return {
      attributes: joinAttributes(left.attributes, right.attributes),
      preferences: joinNamed(left.preferences, right.preferences),
      consents: joinNamed(left.consents, right.consents),
    };
  const [mine, theirs] = [left.hidden ?? NO_VALUES, right.hidden ?? NO_VALUES];
  const attributes = joinParts(
    joinAttributes,
    [left.attributes, mine.attributes],
    [right.attributes, theirs.attributes],
  );
  const preferences = joinParts(
    joinNamed,
    [left.preferences, mine.preferences],
    [right.preferences, theirs.preferences],
  );
  const consents = joinParts(joinNamed, [left.consents, mine.consents], [right.consents, theirs.consents]);
  const all = [attributes, preferences, consents];
  const isPartial =
    left.hidden?.partial === true || right.hidden?.partial === true || all.some(({ isPartial }) => isPartial);
  const lists = {
    attributes: attributes.hidden,
    preferences: preferences.hidden,
    consents: consents.hidden,
  };
  const isSame =
    left.hidden !== undefined &&
    isPartial === (left.hidden.partial === true) &&
    lists.attributes === left.hidden.attributes &&
    lists.preferences === left.hidden.preferences &&
    lists.consents === left.hidden.consents;
  return {
    attributes: attributes.shown,
    preferences: preferences.shown,
    consents: consents.shown,
    hidden: isSame ? left.hidden : { ...lists, ...(isPartial ? { partial: true } : {}) },
  };
}

function areOfOnePart(left: Values, right: Values): boolean {
  let part: string | undefined | null = null;
  for (const values of [left, right])
    for (const list of [values.attributes, values.preferences, values.consents])
      for (const { from } of list) {
        if (part === null) part = from;
        else if (part !== from) return false;
      }
  return true;
}

type Lists<Item> = readonly [shown: readonly Item[], hidden: readonly Item[]];

function joinParts<Item extends Register>(
  join: (left: readonly Item[], right: readonly Item[]) => readonly Item[],
  left: Lists<Item>,
  right: Lists<Item>,
) {
  if (left[0].length + left[1].length + right[0].length + right[1].length === 0)
    return { shown: left[0], hidden: left[1], isPartial: false };
  const byPart = new Map<string, Item[]>();
  for (const list of [...left, ...right])
    for (const item of list) {
      const part = byPart.get(item.from ?? '');
      if (part === undefined) byPart.set(item.from ?? '', [item]);
      else part.push(item);
    }
  const parts = [...byPart].sort(([a], [b]) => compareText(a, b)).map(([, items]) => join([], items));
  const [first = [], ...others] = parts;
  const all = others.reduce(join, first);
  const isShown = new Set(all);
  const hidden = parts.flatMap((items) => items.filter((item) => !isShown.has(item)));
  const isPartial = hidden.length > MAX_HIDDEN;
  const kept = isPartial ? new Set(hidden.toSorted((a, b) => b.ts - a.ts).slice(0, MAX_HIDDEN)) : undefined;
  return {
    shown: keptIfSame(left[0], all),
    hidden: keptIfSame(left[1], kept === undefined ? hidden : hidden.filter((item) => kept.has(item))),
    isPartial,
  };
}
