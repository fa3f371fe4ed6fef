import { type EventFields, type EventType, eventTitle, isEventType } from '../../../shared/event-fields.ts';

/** A trigger that the builder can show: events of some types, or track events of some names. */
export interface SimpleTrigger {
  readonly types: readonly EventType[];
  /** Only where `track` is the one type; none: of any name. */
  readonly names: readonly string[];
}

/** The trigger in simple form; undefined for one that says more. */
export function simpleTriggerOf(trigger: string): SimpleTrigger | undefined {
  if (trigger.split('"').length % 2 === 0) return undefined; // a text without its end
  const tokens = trigger.match(/"[^"]*"|[()=]|[^\s()="]+/g) ?? [];
  const types = alternativesIn(tokens, 'type');
  if (types !== undefined) return types.every(isEventType) ? { types, names: [] } : undefined;
  const joint = tokens[3]?.toLowerCase();
  if (alternativesIn(tokens.slice(0, 3), 'type')?.[0] !== 'track' || joint !== 'and') return undefined;
  const rest = tokens.slice(4);
  const isGroup = rest[0] === '(' && rest.at(-1) === ')';
  // Without parentheses `or` would also join the type.
  if (!isGroup && rest.length !== 3) return undefined;
  const names = alternativesIn(isGroup ? rest.slice(1, -1) : rest, 'event');
  return names && { types: ['track'], names };
}

/** The values of `field = "a" or field = "b"`. */
function alternativesIn(tokens: readonly string[], field: string): readonly string[] | undefined {
  if (tokens.length % 4 !== 3) return undefined;
  const values: string[] = [];
  for (let at = 0; at < tokens.length; at += 4) {
    const [name, sign, value = '', joint = 'or'] = tokens.slice(at, at + 4);
    if (name !== field || sign !== '=' || joint.toLowerCase() !== 'or') return undefined;
    // The pack has types without quotes; anything else is a text.
    if (!value.startsWith('"') && field !== 'type') return undefined;
    values.push(value.replaceAll('"', ''));
  }
  return values;
}

/** The text of a simple trigger. Names cannot contain a double quote, for which the language has no form. */
export function triggerOf({ types, names }: SimpleTrigger): string {
  const alternatives = (field: string, values: readonly string[]) =>
    values.map((value) => `${field} = "${value.replaceAll('"', '')}"`).join(' or ');
  if (names.length === 0 || types.length !== 1) return alternatives('type', types);
  const named = alternatives('event', names);
  return `${alternatives('type', types)} and ${names.length === 1 ? named : `(${named})`}`;
}

/** The trigger in words, where it is simple. */
export function triggerText(trigger: string): string {
  const simple = simpleTriggerOf(trigger);
  if (simple === undefined) return trigger;
  const { types, names } = simple;
  return names.length === 0 ? `${types.join(', ')} events` : names.map((name) => `“${name}”`).join(', ');
}

/** Whether an event meets a trigger; undefined where more than its type and name decides that. */
export function meets(trigger: string, event: Pick<EventFields, 'type' | 'name'>): boolean | undefined {
  const simple = simpleTriggerOf(trigger);
  if (simple === undefined) return undefined;
  const { types, names } = simple;
  return types.some((type) => type === event.type) && (names.length === 0 || names.includes(event.name));
}

/** Why an event does not meet a trigger. */
export function mismatchText(trigger: string, event: EventFields): string {
  const simple = simpleTriggerOf(trigger);
  const { type, name } = event;
  if (simple !== undefined && !simple.types.some((one) => one === type))
    return `It is for ${simple.types.join(' and ')} events; this is ${articleOf(type)} ${type}.`;
  if (simple === undefined || simple.names.length === 0) return 'Its trigger is false for this event.';
  return `It is for ${simple.names.map((one) => `“${one}”`).join(', ')}; this is “${eventTitle({ type, name })}”.`;
}

const articleOf = (word: string) => (/^[aeiou]/.test(word) ? 'an' : 'a');
