import { expect, it } from 'vitest';
import { pathsIn } from './event-paths.ts';
import {
  type ActionField,
  applies,
  faultsOfApi,
  faultText,
  isRequired,
  openFaults,
  subscriptionDraftsOf,
  subscriptionOf,
} from './subscription-draft.ts';
import { type ObjectDraft, valueDraftOf } from './value-draft.ts';

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
});
