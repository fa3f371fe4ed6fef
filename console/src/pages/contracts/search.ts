import { ENVIRONMENTS, EVENT_TYPES } from '../../shared/event-fields.ts';
import { listSearchOf } from '../../shared/paged-list.tsx';
import { oneIn, type RawSearch, stated, textIn, wholeIn } from '../../shared/url-search.ts';

export const MODES = ['allow', 'warn', 'block'] as const;
export const UNDECLARED = ['allow', 'warn', 'omit', 'block'] as const;
export const CONTRACT_TABS = ['definition', 'violations', 'versions'] as const;
export const VIOLATION_ACTIONS = ['warned', 'omitted', 'blocked'] as const;
export const VIOLATION_KINDS = [
  'required',
  'type',
  'enum',
  'format',
  'pattern',
  'bounds',
  'undeclared',
  'schema',
] as const;

export function contractListSearchOf(search: RawSearch) {
  return {
    ...listSearchOf(search),
    ...stated({
      /** Default: contracts in force. */
      status: oneIn(search, 'status', ['archived']),
      type: oneIn(search, 'type', EVENT_TYPES),
      mode: oneIn(search, 'mode', MODES),
    }),
  };
}

export type ContractListSearch = ReturnType<typeof contractListSearchOf>;

export function newContractSearchOf(search: RawSearch) {
  return stated({
    type: oneIn(search, 'type', EVENT_TYPES),
    name: textIn(search, 'name'),
    view: oneIn(search, 'view', ['json']),
  });
}

export function contractSearchOf(search: RawSearch) {
  return {
    ...listSearchOf(search),
    ...stated({
      tab: oneIn(search, 'tab', CONTRACT_TABS),
      view: oneIn(search, 'view', ['json']),
      kind: oneIn(search, 'kind', VIOLATION_KINDS),
      action: oneIn(search, 'action', VIOLATION_ACTIONS),
      environment: oneIn(search, 'environment', ENVIRONMENTS),
      path: textIn(search, 'path'),
      /** The newer one of the compared versions. */
      newer: wholeIn(search, 'newer', 1, 999_999_999),
      /** The older one of the compared versions. */
      older: wholeIn(search, 'older', 1, 999_999_999),
    }),
  };
}

export type ContractSearch = ReturnType<typeof contractSearchOf>;
