import { parseFql, validate } from '@segment/destination-subscriptions';
import { describe, expect, it } from 'vitest';
import { DEFINITIONS } from './connector.ts';
import { subscriptionFault } from './settings.ts';

describe('a subscription', () => {
  it.each([
    ...DEFINITIONS.flatMap(({ presets }) => presets.map(({ subscribe }) => subscribe)),
    'type="track" and event!= "Order \\"',
    'properties.total >= 10.5 or properties.total = -3',
    '(type = "track" or type = "page") and userId != null',
    '!contains(event, "Test") and match(context.page.path, "/shop*")',
    'traits.plan\\ name = "pro" and context.active = true',
    'name = "Home"\n\tor properties.sub.kind = null',
    'type = page OR type = "screen" Or event = "Left"',
  ])('that the pack understands is taken: %s', (subscribe) => {
    expect(subscriptionFault(subscribe)).toBeUndefined();
    const parsed = parseFql(subscribe);
    expect(parsed).not.toHaveProperty('error');
    const conditions = subscribe.match(/(?:[^!<>]=|!=|<=|>=|[<>] |contains\(|match\()/g) ?? [];
    expect(JSON.stringify(parsed).match(/"operator":"(?!and|or)/g)).toHaveLength(conditions.length);
  });

  it.each([
    ['', 'has its end in place of a condition, such as `type = "track"`'],
    ['banana', 'has `banana` in place of a field'],
    ['type == "track"', 'has `=` in place of a text in double quotes'],
    ['event = track', 'has `track` in place of a text in double quotes'],
    ["type = 'track'", 'cannot be parsed at "\'track\'": texts are in double quotes'],
    ['type = "trakc"', 'no event is of the type "trakc"'],
    ['type = "track" and', 'has its end in place of a condition'],
    ['type = "track" )', 'has `)` in place of `and`, `or` or the end'],
    ['type = "track" && event = "A"', 'cannot be parsed at "&& event = \\"A\\""'],
    ['type = "track" event = "A"', 'has `event` in place of `and`, `or` or the end'],
    ['type = "track" and event = "A" or event = "B"', 'must not mix `and` and `or` without parentheses'],
    ['(type = "track" and (event = "A"))', 'has `(` in place of a condition'],
    ['type = "track', 'cannot be parsed at "\\"track"'],
    ['event in ["A"]', 'cannot be parsed'],
    ['event > 5', '`event` is compared with a text'],
    ['properties.total > "5"', '`>` needs a number'],
    ['properties.total>5', 'cannot be parsed'],
    ['event!="A"', 'has `!` in place of a comparison'],
    ['properties.total >=5', 'cannot be parsed'],
    ['type = "track" or(event = "A")', 'cannot be parsed at "or('],
    ['properties.gift != true', 'must compare with `= false`'],
    ['properties = "A"', 'has `properties` in place of a field'],
    ['message_id = "A"', 'has `message_id` in place of a field'],
    // The pack throws for such a path.
    [String.raw`properties.\. = "A"`, 'in place of a name with a letter'],
    [String.raw`contains(traits.\[\], "A")`, 'in place of a name with a letter'],
    ['!(type = "track")', 'has `!` in place of a condition'],
    ['match(event, "Order")', 'match needs a text that begins or ends with `*`'],
    ['contains(event, Order)', 'contains needs a text in double quotes'],
  ])('that takes no event, or others than meant, was accepted: %s', (subscribe, fault) => {
    expect(subscriptionFault(subscribe)).toContain(fault);
  });

  it('was taken as one of `or` where the last word is one: the pack evaluates it so', () => {
    const mixed = parseFql('type = "page" and name = "Home" or name = "Shop"');
    expect(validate(mixed, { type: 'track', name: 'Shop' })).toBe(true);
  });
});
