import { Autocomplete, type ComboboxParsedItem, Loader, TagsInput, Text } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Schemas } from '../../../api/client.ts';
import { errorText } from '../../../shared/error-text.ts';
import type { Literal } from './value-draft.ts';
import type { SharedProps } from './value-input.tsx';

export type FieldChoices = Schemas['FieldChoices'];

/** Asks the vendor for the choices of a field; `field`: by its path in the mapping, with dots. */
export interface VendorQuery {
  readonly field: string;
  readonly payload: Record<string, unknown>;
  readonly query?: string;
  /** Where it is an input of a hook. */
  readonly hook?: string;
  readonly inputs?: Record<string, unknown>;
}

export type AskVendor = (query: VendorQuery, signal: AbortSignal) => Promise<FieldChoices>;

interface Props {
  readonly shared: SharedProps;
  readonly field: string;
  readonly payload: Record<string, unknown>;
  readonly value: Literal;
  readonly onChange: (value: Literal) => void;
  readonly ask: AskVendor;
  /** What the choices depend on beside the payload: the action, and the destination or its settings. */
  readonly of: readonly unknown[];
}

const DEBOUNCE_MS = 400;

/** A value that the vendor has the choices of: they are asked for once the field is used. Any other text can be typed. */
export function DynamicInput({ shared, field, payload, value, onChange, ask, of }: Props) {
  const [isUsed, setIsUsed] = useState(false);
  const [typed, setTyped] = useState('');
  const [query] = useDebouncedValue(typed, DEBOUNCE_MS);
  const asked = { field, payload, ...(query && { query }) };
  const { data, error, isFetching } = useQuery({
    queryKey: ['field-choices', ...of, asked],
    queryFn: ({ signal }) => ask(asked, signal),
    enabled: isUsed,
    placeholderData: keepPreviousData,
    staleTime: 60_000,
    retry: false,
  });
  const choices = new Map((data?.choices ?? []).map((choice) => [String(choice.value), choice]));
  const failure = data?.error?.message ?? (error === null ? undefined : errorText(error).title);
  const labels = [value].flat().flatMap((one) => {
    const { label, value: of } = choices.get(String(one)) ?? {};
    return label === undefined || label === of ? [] : [label];
  });
  const common = {
    ...shared,
    data: [...choices.keys()],
    limit: 100,
    // The vendor has searched; what it returns need not contain the text.
    filter: ({ options }: { readonly options: ComboboxParsedItem[] }) => options,
    rightSection: isFetching && <Loader size="xs" role="status" aria-label="Asking the service" />,
    description: failure === undefined ? labels.join(', ') : `No choices: ${failure}`,
    inputWrapperOrder: ['input', 'description', 'error'] as ('input' | 'description' | 'error')[],
    renderOption: ({ option }: { readonly option: { readonly value: string } }) => {
      const choice = choices.get(option.value);
      return (
        <div>
          <Text size="sm">{choice?.label ?? option.value}</Text>
          <Text size="xs" c="dimmed">
            {[option.value, choice?.description].filter(Boolean).join(' · ')}
          </Text>
        </div>
      );
    },
    onFocus: () => setIsUsed(true),
  };
  if (typeof value === 'object')
    return (
      <TagsInput
        {...common}
        value={[...value]}
        onChange={onChange}
        onSearchChange={setTyped}
        acceptValueOnBlur
      />
    );
  return (
    <Autocomplete
      {...common}
      value={String(value)}
      onChange={(text) => {
        const choice = choices.get(text)?.value;
        onChange(typeof choice === 'number' || typeof choice === 'boolean' ? choice : text);
        if (choice === undefined) setTyped(text);
      }}
    />
  );
}
