import { expect, it } from 'vitest';
import { meets, mismatchText, simpleTriggerOf, triggerOf, triggerText } from './trigger.ts';

it.each([
  'type = "track"',
  'type = "track" or type = "page" or type = "screen"',
  'type = "track" and event = "Order Placed"',
  'type = "track" and (event = "This or that" or event = "B (2) = x")',
])('%s is simple', (trigger) => {
  const simple = simpleTriggerOf(trigger);
  expect(simple && triggerOf(simple)).toBe(trigger);
});

it('takes types as the pack writes them', () => {
  expect(simpleTriggerOf('type = track')).toEqual({ types: ['track'], names: [] });
});

it.each([
  '',
  'type = "trac"',
  'type != "track"',
  'type = "track',
  'type = "page" and event = "A"',
  'type = "track" and event = "A" or event = "B"',
  'type = "track" and properties.total > 3',
  'type = "track" and event != "A"',
  '(type = "track")',
])('%s is not', (trigger) => {
  expect(simpleTriggerOf(trigger)).toBeUndefined();
});

it.each([
  ['type = "track" or type = page', 'track, page events'],
  ['type = "track" and event = "A"', '“A”'],
  ['event != "A"', 'event != "A"'],
])('%s in words', (trigger, text) => {
  expect(triggerText(trigger)).toBe(text);
});

it('says why an event does not match', () => {
  const event = {
    messageId: '',
    type: 'identify',
    name: '',
    subject: '',
    environment: '',
    receivedAt: undefined,
  };
  expect(mismatchText('type = "track" or type = "page"', event)).toBe(
    'It is for track and page events; this is an identify.',
  );
  expect(mismatchText('type = "track" and event = "A"', { ...event, type: 'track', name: 'B' })).toBe(
    'It is for “A”; this is “B”.',
  );
});

it.each([
  ['type = "track" or type = "page"', true],
  ['type = "page"', false],
  ['type = "track" and event = "A"', true],
  ['type = "track" and event = "B"', false],
  ['event != "A"', undefined],
])('decides by type and name whether an event meets %s', (trigger, expected) => {
  expect(meets(trigger, { type: 'track', name: 'A' })).toBe(expected);
});
