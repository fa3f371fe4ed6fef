import { Group, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { MagnifyingGlassIcon } from '@radix-ui/react-icons';
import { useEffect, useState } from 'react';
import { ENVIRONMENTS, EVENT_TYPES } from '../../shared/event-fields.ts';
import { OUTCOME } from '../events/event-words.ts';
import { NameFilter } from '../events/name-filter.tsx';
import { type LiveSearch, OUTCOMES } from './search.ts';

/** Two fields side by side on a phone. */
const FIELD = '1 1 130px';

interface Props {
  readonly search: LiveSearch;
  readonly onChange: (change: { readonly [Name in keyof LiveSearch]: LiveSearch[Name] | undefined }) => void;
}

/** The filters of the list; all of them are in the URL. */
export function LiveFilters({ search, onChange }: Props) {
  return (
    <Group gap="xs" align="flex-end" maw={980}>
      <TextFilter value={search.q} onChange={(q) => onChange({ q })} />
      <NameFilter value={search.name} onChange={(name) => onChange({ name })} />
      <Select
        label="Type"
        placeholder="All"
        clearable
        flex={FIELD}
        data={[...EVENT_TYPES]}
        value={search.type ?? null}
        onChange={(type) => onChange({ type: EVENT_TYPES.find((one) => one === type) })}
      />
      <Select
        label="Outcome"
        placeholder="All"
        clearable
        flex={FIELD}
        data={OUTCOMES.map((value) => ({ value, label: OUTCOME[value]?.text ?? value }))}
        value={search.outcome ?? null}
        onChange={(outcome) => onChange({ outcome: OUTCOMES.find((one) => one === outcome) })}
      />
      <Select
        label="Environment"
        placeholder="Both"
        clearable
        flex={FIELD}
        data={[...ENVIRONMENTS]}
        value={search.environment ?? null}
        onChange={(environment) => onChange({ environment: ENVIRONMENTS.find((one) => one === environment) })}
      />
    </Group>
  );
}

interface TextProps {
  readonly value: string | undefined;
  readonly onChange: (text: string | undefined) => void;
}

function TextFilter({ value, onChange }: TextProps) {
  const [text, setText] = useState(value ?? '');
  useEffect(() => setText(value ?? ''), [value]);
  const report = useDebouncedCallback((next: string) => onChange(next === '' ? undefined : next), 250);
  return (
    <TextInput
      label="Text"
      placeholder="Anything in the event"
      flex={FIELD}
      leftSection={<MagnifyingGlassIcon aria-hidden />}
      value={text}
      onChange={({ currentTarget }) => {
        setText(currentTarget.value);
        report(currentTarget.value);
      }}
    />
  );
}
