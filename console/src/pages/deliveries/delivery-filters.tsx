import { Button, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useEffect, useState } from 'react';
import { DestinationSelect } from '../../shared/destination-select.tsx';
import { CAUSE, STATUS } from './delivery-words.ts';
import { CAUSES, type DeliveriesSearch, deliveriesSearchOf, STATUSES } from './search.ts';

interface Props {
  readonly search: DeliveriesSearch;
  readonly onSearch: (search: DeliveriesSearch) => void;
  /** The filters of groups: they hold dead and retrying deliveries only, and cannot be filtered by text or time. */
  readonly ofGroups: boolean;
  readonly ruleName: string | undefined;
}

/** The filters of failures and of the list. */
export function DeliveryFilters({ search, onSearch, ofGroups, ruleName }: Props) {
  const change = (name: string) => (value: string | null) => {
    const { cursor: _, ...kept } = search;
    onSearch(deliveriesSearchOf({ ...kept, [name]: value ?? '' }));
  };
  const statuses = ofGroups ? STATUSES.slice(0, 2) : STATUSES;
  return (
    <>
      <Select
        aria-label="Status"
        placeholder={ofGroups ? 'Dead and retrying' : 'Any status'}
        clearable
        data={statuses.map((value) => ({ value, label: STATUS[value].label }))}
        value={search.status ?? null}
        onChange={change('status')}
      />
      <DestinationSelect
        aria-label="Destination"
        placeholder="All destinations"
        clearable
        value={search.destination ?? null}
        onChange={change('destination')}
      />
      <Select
        aria-label="Cause"
        placeholder="Any cause of death"
        clearable
        data={CAUSES.map((value) => ({ value, label: CAUSE[value] }))}
        value={search.cause ?? null}
        onChange={change('cause')}
      />
      {!ofGroups && <ReasonFilter value={search.reason ?? ''} onChange={change('reason')} />}
      {!ofGroups && (
        <>
          <TextInput
            type="date"
            aria-label="Received since"
            value={search.since ?? ''}
            onChange={({ currentTarget }) => change('since')(currentTarget.value)}
          />
          <TextInput
            type="date"
            aria-label="Received before"
            value={search.until ?? ''}
            onChange={({ currentTarget }) => change('until')(currentTarget.value)}
          />
        </>
      )}
      {search.rule !== undefined && (
        <Button variant="default" onClick={() => change('rule')(null)}>
          Rule: {ruleName} ✕
        </Button>
      )}
      {search.group !== undefined && (
        <Button variant="default" onClick={() => change('group')(null)}>
          One group of failures ✕
        </Button>
      )}
    </>
  );
}

function ReasonFilter({
  value,
  onChange,
}: {
  readonly value: string;
  readonly onChange: (value: string) => void;
}) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const report = useDebouncedCallback(onChange, 300);
  return (
    <TextInput
      aria-label="Part of the reason"
      placeholder="Part of the reason"
      value={text}
      onChange={({ currentTarget }) => {
        setText(currentTarget.value);
        report(currentTarget.value);
      }}
    />
  );
}
