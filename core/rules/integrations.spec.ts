import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../event/event.ts';
import { excludes, mayExclude } from './integrations.ts';

const DESTINATION = { id: '0b1c', name: 'Our Mixpanel', type: 'segment-mixpanel' };

describe('integrations were stored and ignored', () => {
  it.each<[JsonObject | undefined, boolean]>([
    [undefined, false],
    [{}, false],
    [{ All: true }, false],
    [{ All: false }, true],
    [{ all: false }, true],
    [{ All: false, Other: true }, true],
    [{ Other: false }, false],
    ...[
      '0b1c',
      'Our Mixpanel',
      'segment-mixpanel',
      'Mixpanel',
      'Actions Mixpanel',
      'Mixpanel (Actions)',
    ].flatMap((key): [JsonObject, boolean][] => [
      [{ [key]: false }, true],
      [{ All: true, [key]: false }, true],
      [{ All: false, [key]: true }, false],
      [{ All: false, [key]: { token: 7 } }, false],
      [{ All: false, [key]: {} }, false],
    ]),
    // Neither product gives other values a meaning.
    [{ All: 'no' }, false],
    [{ All: false, Mixpanel: null }, true],
    [{ All: false, Mixpanel: 'yes' }, true],
    [{ All: false, Mixpanel: ['yes'] }, true],
    // Names of a person's own are taken to the letter, and the more exact decides.
    [{ 'our mixpanel': false }, false],
    [{ Mixpanel: false, 'Our Mixpanel': true }, false],
    [{ 'Our Mixpanel': true, '0b1c': false }, true],
  ])('%j', (integrations, excluded) => {
    expect(excludes(integrations, DESTINATION)).toBe(excluded);
  });

  it('name a type by its vendor, with the punctuation of the vendor', () => {
    const customerio = { ...DESTINATION, type: 'segment-customerio' };
    expect(excludes({ 'Customer.io': false }, customerio)).toBe(true);
    expect(excludes({ constructor: false, toString: false }, { ...DESTINATION, name: '__proto__' })).toBe(
      false,
    );
    expect(excludes({ Webhook: false }, { ...DESTINATION, type: 'webhook' })).toBe(true);
  });

  it('are read from an event only where they may exclude', () => {
    const textOf = (event: object) => JSON.stringify(event);
    for (const event of [
      {},
      { integrations: {} },
      { integrations: { All: true } },
      { properties: { integrations: 1 } },
    ])
      expect(mayExclude(textOf(event))).toBe(false);
    for (const integrations of [{ All: false }, { All: true, X: false }, { X: {} }]) {
      expect(mayExclude(textOf({ integrations }))).toBe(true);
      expect(mayExclude(textOf({ context: { integrations: { All: true } }, integrations }))).toBe(true);
    }
  });
});
