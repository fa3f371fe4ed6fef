import { TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useEffect, useState } from 'react';

interface Props {
  readonly value: string | undefined;
  readonly onChange: (name: string | undefined) => void;
}

/** The exact name of a track event, page or screen. Reported once typing pauses. */
export function NameFilter({ value, onChange }: Props) {
  const [text, setText] = useState(value ?? '');
  useEffect(() => setText(value ?? ''), [value]);
  const report = useDebouncedCallback((name: string) => onChange(name === '' ? undefined : name), 300);
  return (
    <TextInput
      label="Event name"
      placeholder="All"
      flex="1 1 130px"
      maw={220}
      value={text}
      onChange={({ currentTarget }) => {
        setText(currentTarget.value);
        report(currentTarget.value);
      }}
    />
  );
}
