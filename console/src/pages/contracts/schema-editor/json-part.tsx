import { JsonInput } from '@mantine/core';
import { useState } from 'react';
import { isJsonObject, type Json } from '../schema-form/model.ts';

interface Props {
  readonly label: string;
  readonly description?: string;
  readonly value: Json;
  readonly onChange: (value: Json) => void;
  readonly isObject?: boolean;
}

/** A part of a schema that the form has no fields for, edited as JSON. Invalid JSON is not taken into the schema. */
export function JsonPart({ label, description, value, onChange, isObject = false }: Props) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const [fault, setFault] = useState<string>();
  const change = (next: string) => {
    setText(next);
    try {
      const parsed: Json = JSON.parse(next);
      if (isObject && !isJsonObject(parsed)) return setFault('This has to be an object: { ... }');
      setFault(undefined);
      onChange(parsed);
    } catch {
      setFault('This is no valid JSON, and not taken over.');
    }
  };
  return (
    <JsonInput
      label={label}
      description={description}
      value={text}
      error={fault}
      autosize
      minRows={2}
      maxRows={12}
      styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
      onChange={change}
    />
  );
}
