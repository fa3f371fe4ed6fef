import { expect, it } from 'vitest';
import type { Json } from '../settings/fields.ts';
import { pathsIn, valuesBelow } from './event-paths.ts';
import {
  type ActionField,
  applies,
  faultsOfApi,
  faultText,
  hookInputsOf,
  isBatched,
  isRequired,
  openFaults,
  subscriptionDraftsOf,
  subscriptionOf,
  withBatchSwitch,
} from './subscription-draft.ts';
import { jsonOf, type ObjectDraft, valueDraftOf } from './value-draft.ts';

const STORED = [
  {
    name: 'A',
    action: 'a',
    trigger: 'type = "track"',
    mapping: { x: 1 },
    enabled: true,
    batch: false,
    more: { keys: ['k'] },
  },
  { action: 'b', trigger: 'type = "page"', mapping: { o: { y: { '@path': '$.y' } } }, enabled: false },
];

it('keeps members that the form does not show', () => {
  expect(subscriptionDraftsOf(STORED).map(subscriptionOf)).toEqual(STORED);
});

it('shows a fault of the API until its place is touched, wherever the subscription stands by then', () => {
  const sent = subscriptionDraftsOf(STORED);
  const faults = faultsOfApi(
    [
      { path: '/settings/subscriptions/1/mapping/o/y', message: 'must be a number' },
      { path: '/settings/subscriptions/1/mapping/z', message: 'is required' },
      { path: '/settings/api_key', message: 'is required' },
    ],
    sent,
  );
  expect(faults.map(({ key, path }) => [key, path])).toEqual([
    ['1', '/mapping/o/y'],
    ['1', '/mapping/z'],
  ]);
  expect(faultText(faults, '/mapping/o')).toBe('y must be a number');
  expect(openFaults(faults, sent, sent.toReversed())).toEqual(faults);
  const [first, second] = sent;
  if (first === undefined || second === undefined) throw new Error('no drafts');
  const touched = { ...second, mapping: valueDraftOf({ o: { y: 1 } }) };
  expect(openFaults(faults, sent, [first, touched]).map(({ path }) => path)).toEqual(['/mapping/z']);
  expect(openFaults(faults, sent, [first])).toEqual([]);
});

it('shows a fault once: where its place shows its own, else at what it is in', () => {
  const faults = [
    { path: '/mapping/o', message: 'must be an object' },
    { path: '/mapping/o/y', message: 'must be a number' },
    { path: '/mapping/o2', message: 'is required' },
  ];
  expect(faultText(faults, '/mapping', ['/mapping/o'])).toBe('o2 is required');
  expect(faultText(faults, '/mapping/o', ['/mapping/o/y'])).toBe('must be an object');
  expect(faultText(faults, '/mapping/o/y')).toBe('must be a number');
});

it('has the batches of a subscription, and of its mapping where it does not say', () => {
  const [, second] = subscriptionDraftsOf(STORED);
  if (second === undefined) throw new Error('no drafts');
  const batched = { ...second, mapping: valueDraftOf({ enable_batching: true }) as ObjectDraft };
  expect([second, batched, { ...batched, batch: false }].map(isBatched)).toEqual([false, true, false]);
  expect(jsonOf(withBatchSwitch(false, batched.mapping))).toEqual({ enable_batching: false });
  // As the API decides conditions: without a switch in the mapping there is none.
  expect(jsonOf(withBatchSwitch(false, { mode: 'object', members: {} }))).toEqual({});
});

it('begins a hook with the inputs of its last run, else with those that are proposed', () => {
  const hook = {
    hook: 'h',
    label: 'H',
    description: '',
    fields: [{ field: 'days', label: 'Days', type: 'number', default: 30 }],
  };
  const inputsOf = (kept?: Json) => jsonOf(hookInputsOf(hook, kept));
  expect(inputsOf()).toEqual({ days: 30 });
  expect(inputsOf({ inputs: { days: 7 }, outputs: {} })).toEqual({ days: 7 });
  expect(inputsOf({ inputs: { days: 7 }, pending: { name: 'A' } })).toEqual({ name: 'A' });
});

it('decides conditions as the API does, and leaves open what depends on the event', () => {
  const field = (conditions: readonly object[], match: 'all' | 'any' = 'all') =>
    ({ field: 'f', label: 'F', type: 'string', depends_on: { match, conditions } }) as ActionField;
  const mapping = valueDraftOf({ kind: 'order', at: { '@path': '$.at' }, none: '' }) as ObjectDraft;
  const isOrder = { field: 'kind', operator: 'is', value: 'order' };
  const isNone = { field: 'none', operator: 'is' };
  const isNow = { field: 'at', operator: 'is', value: 'now' };
  const isOther = { field: 'kind', operator: 'is_not', value: 'order' };
  expect(applies(field([isOrder, isNone]), mapping)).toBe(true);
  expect(applies(field([isOrder, isOther]), mapping)).toBe(false);
  expect(applies(field([isOrder, isOther], 'any'), mapping)).toBe(true);
  expect(applies(field([isNow]), mapping)).toBe(true);
  const required = { ...field([]), required_if: { match: 'all', conditions: [isNow] } } as ActionField;
  expect(isRequired(required, mapping)).toBe(false);
  expect(
    isRequired({ ...required, required_if: { match: 'all', conditions: [isOrder] } } as ActionField, mapping),
  ).toBe(true);
});

it('finds the paths of events by the names that mappings see', () => {
  const event = {
    user_id: 'u',
    workspace_id: 'w',
    properties: { total: 1, cart: { size: 2 }, 'a.b': 3 },
    context: { page: { url: '/' }, tributary: { x: 1 } },
  };
  expect(pathsIn([event])).toEqual([
    '$.context',
    '$.context.page',
    '$.context.page.url',
    '$.properties',
    '$.properties.cart',
    '$.properties.cart.size',
    '$.properties.total',
    '$.userId',
  ]);
  expect([...valuesBelow({ price: 2 })]).toEqual([['$.price', 2]]);
});
