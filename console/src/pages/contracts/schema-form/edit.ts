import {
  EMPTY_FORM,
  type FieldContent,
  type FieldForm,
  isJsonObject,
  type Json,
  newFieldId,
  type SchemaForm,
} from './model.ts';
import { schemaToForm } from './read.ts';
import { formToSchema } from './write.ts';

export function isRequired({ listedAt, content }: FieldForm): boolean {
  return listedAt !== undefined || (content.kind === 'form' && content.form.flag === true);
}

export function addField(form: SchemaForm): SchemaForm {
  const content: FieldContent = { kind: 'form', form: { ...EMPTY_FORM, types: ['string'] } };
  return { ...form, fields: [...(form.fields ?? []), { id: newFieldId(), name: '', isNew: true, content }] };
}

export function removeField(form: SchemaForm, id: string): SchemaForm {
  return { ...form, fields: form.fields?.filter((field) => field.id !== id) };
}

export function updateField(
  form: SchemaForm,
  id: string,
  update: (field: FieldForm) => FieldForm,
): SchemaForm {
  return { ...form, fields: form.fields?.map((field) => (field.id === id ? update(field) : field)) };
}

/**
 * Makes a field required or optional in the way that the object already uses: by `required: true` at the property, or in the
 * list `required` beside `properties`. Undefined where neither is possible, as `required` holds something else there.
 */
export function setRequired(
  form: SchemaForm,
  id: string,
  required: boolean,
  isShort: boolean,
): SchemaForm | undefined {
  const field = form.fields?.find((candidate) => candidate.id === id);
  if (field === undefined) return form;
  if (!required) return updateField(form, id, withoutRequired);
  const canFlag = isShort && mayHoldFlag(field.content);
  const canList = form.flag === undefined && !Object.hasOwn(form.rest, 'required');
  if (canFlag && (!hasList(form) || !canList)) return updateField(form, id, withFlag);
  if (!canList) return undefined;
  const at = Math.max(-1, ...requiredPositions(form)) + 1;
  return updateField(form, id, (listed) => ({ ...withoutRequired(listed), listedAt: at }));
}

function mayHoldFlag(content: FieldContent): boolean {
  return content.kind === 'form' && !hasList(content.form) && !Object.hasOwn(content.form.rest, 'required');
}

function hasList(form: SchemaForm): boolean {
  return form.requiredIsEmpty === true || requiredPositions(form).length > 0;
}

function requiredPositions({ fields = [], requiredOthers }: SchemaForm): readonly number[] {
  const listed = fields.flatMap(({ listedAt }) => (listedAt === undefined ? [] : [listedAt]));
  return [...requiredOthers.map(({ at }) => at), ...listed];
}

function withFlag(field: FieldForm): FieldForm {
  if (field.content.kind === 'json') return field;
  return { ...field, content: { kind: 'form', form: { ...field.content.form, flag: true } } };
}

function withoutRequired({ listedAt: _, ...field }: FieldForm): FieldForm {
  if (field.content.kind === 'json') return field;
  return { ...field, content: { kind: 'form', form: { ...field.content.form, flag: undefined } } };
}

/** Replaces the members without a form field. Members of `rest` that have a form field are read into it. */
export function setRest(form: SchemaForm, rest: Json, isShort: boolean): SchemaForm {
  if (!isJsonObject(rest)) return form;
  const others = formToSchema({ ...form, rest: {} });
  const { flag } = form;
  const { required, ...withoutFlagged } = others;
  const merged: Record<string, Json> = { ...(flag === undefined ? others : withoutFlagged), ...rest };
  // Read like a whole definition: a `$schema` is added unless the schema has the short form, so that `rest` keeps its
  // dialect.
  const read = schemaToForm(isShort ? merged : { $schema: '', ...merged });
  const { $schema: __, ...kept } = read.rest;
  return { ...read, rest: Object.hasOwn(rest, '$schema') ? read.rest : kept, flag };
}

/** The faults that keep the form from being a schema, by the id of the field. */
export function fieldFaults(form: SchemaForm): ReadonlyMap<string, string> {
  const faults = new Map<string, string>();
  collectFaults(form, faults);
  return faults;
}

function collectFaults({ fields = [], items }: SchemaForm, faults: Map<string, string>): void {
  const seen = new Set<string>();
  for (const { id, name, isNew, content } of fields) {
    if (name === '' && isNew === true) faults.set(id, 'Name the field.');
    else if (seen.has(name)) faults.set(id, 'There is a field of this name already.');
    seen.add(name);
    if (content.kind === 'form') collectFaults(content.form, faults);
  }
  if (items !== undefined) collectFaults(items, faults);
}

/** How many fields there are at all depths. */
export function countFields({ fields = [], items }: SchemaForm): number {
  const below = fields.map(({ content }) => (content.kind === 'form' ? countFields(content.form) : 0));
  return (
    fields.length +
    below.reduce((sum, count) => sum + count, 0) +
    (items === undefined ? 0 : countFields(items))
  );
}
