import { SegmentedControl } from '@mantine/core';
import { restarted } from '../../shared/paged-list.tsx';
import type { KeyFilter } from './search.ts';

interface Props {
  readonly filter: KeyFilter;
  readonly onFilter: (filter: KeyFilter) => void;
}

/** Chooses the status of the listed keys; active ones by default. */
export function StatusFilter({ filter, onFilter }: Props) {
  return (
    <SegmentedControl
      aria-label="Status"
      value={filter.status ?? 'active'}
      data={[
        { value: 'active', label: 'Active' },
        { value: 'revoked', label: 'Revoked' },
        { value: 'all', label: 'All' },
      ]}
      onChange={(status) => onFilter(restarted(filter, { status: status === 'active' ? '' : status }))}
    />
  );
}

/** The status parameter of the API. */
export function statusQuery({ status }: KeyFilter): { readonly status?: 'active' | 'revoked' } {
  return status === 'all' ? {} : { status: status ?? 'active' };
}
