import { MAX_CANONICAL_EVENT_BYTES, MAX_OUTPUTS, OUTPUT_ROOM_BYTES } from '@tributary/core';

/**
 * What one event may become over all rules it matches, whatever their transformations return: deliveries, and bytes of
 * the events in them. Ten transformations may return all that each of them may; 200 rules, the most a workspace has
 * unless its operator allows more, still have 160 KiB and 50 outputs each.
 */
export const EVENT_OUTPUTS = 10_000;
export const EVENT_BYTES = 32 * 1024 * 1024;

/** One output of full size always has room: its event, and the fields that are kept from the source. */
const ONE_OUTPUT_BYTES = MAX_CANONICAL_EVENT_BYTES + OUTPUT_ROOM_BYTES + 4_096;

/** What one rule may make of one event. */
export interface RuleShare {
  readonly outputs: number;
  readonly bytes: number;
  /** The rules that share the bound. */
  readonly rules: number;
}

/**
 * The rules of an event share its bound evenly. So what a rule may make depends on nothing that another one makes, nor
 * on which is done first: a replay gives the same deliveries and the same dead ones.
 */
export function shareOf(rules: number): RuleShare {
  const among = Math.max(1, rules);
  return {
    outputs: Math.min(MAX_OUTPUTS, Math.max(1, Math.floor(EVENT_OUTPUTS / among))),
    bytes: Math.max(ONE_OUTPUT_BYTES, Math.floor(EVENT_BYTES / among)),
    rules: among,
  };
}

/** Why the outputs of a rule are not delivered; undefined where they have room. `bytes` are UTF-8. */
export function excessOf(outputs: readonly string[], share: RuleShare): string | undefined {
  if (outputs.length > share.outputs) {
    return `too much of one event: ${outputs.length} outputs, and each of its ${share.rules} rules may make ${share.outputs}`;
  }
  let bytes = 0;
  for (const output of outputs) bytes += Buffer.byteLength(output);
  if (bytes <= share.bytes) return undefined;
  return `too much of one event: ${bytes} bytes, and each of its ${share.rules} rules may make ${share.bytes}`;
}
