import {
  Button,
  Checkbox,
  NativeSelect,
  NumberInput,
  SimpleGrid,
  Stack,
  TagsInput,
  TextInput,
} from '@mantine/core';
import { useState } from 'react';
import { FORMATS, mayBe } from '../schema-form/describe.ts';
import { setRest } from '../schema-form/edit.ts';
import type { NumberKeyword, SchemaForm, TextKeyword } from '../schema-form/model.ts';
import { JsonPart } from './json-part.tsx';

export type UpdateForm = (update: (form: SchemaForm) => SchemaForm) => void;

interface Props {
  readonly form: SchemaForm;
  readonly isShort: boolean;
  readonly onChange: UpdateForm;
}

/** The constraints of a field beside its type. A keyword that does not fit the type is shown if the schema sets it. */
export function FieldDetails({ form, isShort, onChange }: Props) {
  return (
    <Stack gap="sm">
      <TextKeywordInput keyword="description" label="Description" form={form} onChange={onChange} />
      <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }} spacing="sm">
        <TextConstraints form={form} onChange={onChange} />
        <NumberConstraints form={form} onChange={onChange} />
        <ListConstraints form={form} onChange={onChange} />
      </SimpleGrid>
      <Values form={form} onChange={onChange} />
      {(mayBe(form, 'object') || form.additionalProperties !== undefined) && (
        <OtherFields form={form} onChange={onChange} />
      )}
      <OtherKeywords form={form} isShort={isShort} onChange={onChange} />
    </Stack>
  );
}

interface PartProps {
  readonly form: SchemaForm;
  readonly onChange: UpdateForm;
}

function TextConstraints({ form, onChange }: PartProps) {
  const { format, pattern } = form.texts;
  const isText = mayBe(form, 'string');
  const isKnown = format === undefined || FORMATS.some((known) => known === format);
  return (
    <>
      {(isText || mayBe(form, 'number', 'integer') || format !== undefined) && (
        <NativeSelect
          label="Format"
          value={format ?? ''}
          data={[{ value: '', label: 'none' }, ...FORMATS, ...(isKnown ? [] : [format])]}
          onChange={({ currentTarget: { value } }) => onChange(withText('format', value))}
        />
      )}
      {(isText || pattern !== undefined) && (
        <TextKeywordInput
          keyword="pattern"
          label="Pattern"
          placeholder="^[A-Z]{3}$"
          form={form}
          onChange={onChange}
        />
      )}
      <NumberKeywordInput
        keyword="minLength"
        label="Shortest"
        isUsual={isText}
        form={form}
        onChange={onChange}
      />
      <NumberKeywordInput
        keyword="maxLength"
        label="Longest"
        isUsual={isText}
        form={form}
        onChange={onChange}
      />
    </>
  );
}

function NumberConstraints({ form, onChange }: PartProps) {
  const props = { form, onChange, isUsual: mayBe(form, 'number', 'integer') };
  return (
    <>
      <NumberKeywordInput keyword="minimum" label="At least" {...props} />
      <NumberKeywordInput keyword="maximum" label="At most" {...props} />
      <NumberKeywordInput keyword="exclusiveMinimum" label="More than" {...props} />
      <NumberKeywordInput keyword="exclusiveMaximum" label="Less than" {...props} />
      <NumberKeywordInput keyword="multipleOf" label="Multiple of" {...props} />
    </>
  );
}

function ListConstraints({ form, onChange }: PartProps) {
  const isList = mayBe(form, 'array');
  return (
    <>
      <NumberKeywordInput
        keyword="minItems"
        label="Items at least"
        isUsual={isList}
        form={form}
        onChange={onChange}
      />
      <NumberKeywordInput
        keyword="maxItems"
        label="Items at most"
        isUsual={isList}
        form={form}
        onChange={onChange}
      />
      {(isList || form.uniqueItems !== undefined) && (
        <Checkbox
          label="No item twice"
          checked={form.uniqueItems === true}
          onChange={({ currentTarget: { checked } }) =>
            onChange((before) => ({ ...before, uniqueItems: checked ? true : undefined }))
          }
        />
      )}
    </>
  );
}

/** `enum` of texts or of numbers. An `enum` with other values is edited among the other keywords. */
function Values({ form, onChange }: PartProps) {
  const { values } = form;
  const isOther = Object.hasOwn(form.rest, 'enum');
  if (isOther || (values === undefined && !mayBe(form, 'string', 'number', 'integer'))) return null;
  const isNumbers = values === undefined ? !mayBe(form, 'string') : typeof values[0] === 'number';
  return (
    <TagsInput
      label="Allowed values"
      description={isNumbers ? 'Numbers; empty: all.' : 'Texts; empty: all.'}
      placeholder="Type a value, then Enter"
      value={(values ?? []).map(String)}
      onChange={(tags) => onChange((before) => ({ ...before, values: valuesOf(tags, isNumbers) }))}
    />
  );
}

function valuesOf(
  tags: readonly string[],
  isNumbers: boolean,
): readonly string[] | readonly number[] | undefined {
  if (tags.length === 0) return undefined;
  if (!isNumbers) return tags;
  const numbers = tags.filter((tag) => tag.trim() !== '' && Number.isFinite(Number(tag))).map(Number);
  return numbers.length === 0 ? undefined : [...new Set(numbers)];
}

function OtherFields({ form, onChange }: PartProps) {
  const { additionalProperties } = form;
  return (
    <NativeSelect
      label="Fields that are not listed"
      maw={420}
      value={additionalProperties === undefined ? '' : String(additionalProperties)}
      data={[
        { value: '', label: 'As the contract treats undeclared fields' },
        { value: 'true', label: 'Are allowed' },
        { value: 'false', label: 'Break the contract' },
      ]}
      onChange={({ currentTarget: { value } }) =>
        onChange((before) => ({
          ...before,
          additionalProperties: value === '' ? undefined : value === 'true',
        }))
      }
    />
  );
}

function OtherKeywords({ form, isShort, onChange }: Props) {
  const [isOpen, setOpen] = useState(Object.keys(form.rest).length > 0);
  if (!isOpen)
    return (
      <Button variant="subtle" size="compact-xs" w="fit-content" onClick={() => setOpen(true)}>
        Add other keywords as JSON
      </Button>
    );
  return (
    <JsonPart
      label="Other keywords"
      description="Kept as they are: anyOf, const, $ref, title, default, x-labels and all else this form has no field for."
      value={form.rest}
      isObject
      onChange={(rest) => onChange((before) => setRest(before, rest, isShort))}
    />
  );
}

interface KeywordProps<K> extends PartProps {
  readonly keyword: K;
  readonly label: string;
}

function TextKeywordInput({
  keyword,
  label,
  placeholder,
  form,
  onChange,
}: KeywordProps<TextKeyword> & { readonly placeholder?: string }) {
  return (
    <TextInput
      label={label}
      placeholder={placeholder}
      value={form.texts[keyword] ?? ''}
      onChange={({ currentTarget: { value } }) => onChange(withText(keyword, value))}
    />
  );
}

function withText(keyword: TextKeyword, value: string): (form: SchemaForm) => SchemaForm {
  return (form) => ({ ...form, texts: { ...form.texts, [keyword]: value === '' ? undefined : value } });
}

/** Shown if the keyword is usual for the type, or if the schema sets it. */
function NumberKeywordInput({
  keyword,
  label,
  isUsual,
  form,
  onChange,
}: KeywordProps<NumberKeyword> & { readonly isUsual: boolean }) {
  const value = form.numbers[keyword];
  if (!isUsual && value === undefined) return null;
  return (
    <NumberInput
      label={label}
      defaultValue={value ?? ''}
      hideControls
      onChange={(typed) => {
        if (typed !== '' && !Number.isFinite(Number(typed))) return;
        const number = typed === '' ? undefined : Number(typed);
        onChange((before) => ({ ...before, numbers: { ...before.numbers, [keyword]: number } }));
      }}
    />
  );
}
