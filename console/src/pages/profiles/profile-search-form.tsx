import { Autocomplete, Button, Group, TextInput } from '@mantine/core';
import { MagnifyingGlassIcon } from '@radix-ui/react-icons';
import { type FormEvent, useState } from 'react';
import type { ProfileLookup } from '../../shared/profile-lookup.tsx';
import { USUAL_TYPES } from './profile-record.ts';

export const IDENTITY_TYPES = [...USUAL_TYPES, 'email_sha256_lowercase'];

interface Props {
  readonly lookup: ProfileLookup | null;
  readonly onSearch: (lookup: ProfileLookup) => void;
}

/** Asks the browser not to remember the typed identity, as it is personal data. */
export function ProfileSearchForm({ lookup, onSearch }: Props) {
  const [value, setValue] = useState(lookup?.value ?? '');
  const [type, setType] = useState(lookup?.type ?? '');
  const search = (event: FormEvent) => {
    event.preventDefault();
    if (value.trim() !== '') onSearch({ type: type.trim(), value: value.trim() });
  };
  return (
    <form onSubmit={search} autoComplete="off">
      <Group align="flex-end" gap="xs">
        <TextInput
          label="Identity"
          placeholder="ada@example.com, u-1, +43 ..."
          value={value}
          onChange={({ currentTarget }) => setValue(currentTarget.value)}
          autoComplete="off"
          spellCheck={false}
          flex="3 1 240px"
          maw={480}
        />
        <Autocomplete
          label="Type"
          placeholder="Any usual type"
          data={[...IDENTITY_TYPES, 'ucid']}
          value={type}
          onChange={setType}
          autoComplete="off"
          clearable
          flex="1 1 180px"
          maw={260}
        />
        <Button
          type="submit"
          leftSection={<MagnifyingGlassIcon aria-hidden />}
          disabled={value.trim() === ''}
        >
          Look up
        </Button>
      </Group>
    </form>
  );
}
