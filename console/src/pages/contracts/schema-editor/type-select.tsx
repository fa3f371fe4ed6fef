import { NativeSelect } from '@mantine/core';
import { choiceLabel, choiceOf, typesOfChoice } from '../schema-form/describe.ts';
import { type SchemaForm, TYPES, type TypeName } from '../schema-form/model.ts';

const SINGLE: readonly (readonly TypeName[])[] = [[], ...TYPES.map((type) => [type])];
const WITH_NULL: readonly (readonly TypeName[])[] = TYPES.filter((type) => type !== 'null').map((type) => [
  type,
  'null',
]);
const COMMON = [...SINGLE, ...WITH_NULL];

interface Props {
  readonly form: SchemaForm;
  readonly label: string;
  readonly onChange: (update: (form: SchemaForm) => SchemaForm) => void;
}

/** One type, one or null, any, or the list that the schema has already. */
export function TypeSelect({ form, label, onChange }: Props) {
  const current = choiceOf(form.types);
  const isCommon = COMMON.some((types) => choiceOf(types) === current);
  const options = isCommon ? COMMON : [...COMMON, form.types];
  return (
    <NativeSelect
      aria-label={label}
      flex="1 1 8rem"
      value={current}
      data={options.map((types) => ({ value: choiceOf(types), label: choiceLabel(types) }))}
      onChange={({ currentTarget: { value } }) => {
        const types = value === choiceOf(form.types) ? form.types : typesOfChoice(value);
        onChange((before) => ({ ...before, types, typeIsList: types.length > 1 }));
      }}
    />
  );
}
