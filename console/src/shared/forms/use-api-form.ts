import { type UseFormInput, type UseFormReturnType, useForm } from '@mantine/form';
import { useMutation } from '@tanstack/react-query';
import { type SyntheticEvent, useEffect, useId, useState } from 'react';
import type { Versioned } from '../../api/client.ts';
import { ApiError, type Fault } from '../../api/errors.ts';
import { type AssignedFaults, assignFaults } from './faults.ts';
import { differencesOf, type FieldDifference, isSame, mergedOf } from './versions.ts';

/** The type of a form's values in Mantine: an object with fields of any type. */
export type FormValues = NonNullable<NonNullable<Parameters<typeof useForm>[0]>['initialValues']>;

/** Another person saved a version while the form was open. */
export interface VersionConflict {
  readonly differences: readonly FieldDifference[];
  /** Saves the fields that were typed into, on top of the version that is stored. */
  readonly saveMine: () => void;
  /** Takes the stored version into the form. */
  readonly takeStored: () => void;
  /** Closes the dialog; the form stays as it is. */
  readonly dismiss: () => void;
}

/** A form over the API, for `ApiFormFrame`. */
export interface ApiForm<V extends FormValues> {
  readonly form: UseFormReturnType<V>;
  readonly submit: (event?: SyntheticEvent<HTMLFormElement>) => void;
  readonly isSending: boolean;
  /** Whether the form has unsaved input. Reads the current state, also between two renders. */
  readonly isDirty: () => boolean;
  /** Whether the form can be saved without any input: it creates a resource. */
  readonly isNew: boolean;
  /** The error of the last attempt; null without one. */
  readonly error: Error | null;
  /** Faults of parts without a field in the form. */
  readonly otherFaults: readonly Fault[];
  readonly conflict: VersionConflict | undefined;
  /** Another version is stored than the one this form was opened with. */
  readonly isOutdated: boolean;
}

interface Options<V extends FormValues> {
  readonly validate?: UseFormInput<V>['validate'];
  /** Maps a path of the body to the field that shows it, where their names differ; both with dots. */
  readonly fieldOf?: (path: string) => string;
}

interface CreateOptions<V extends FormValues, Answer> extends Options<V> {
  readonly initialValues: V;
  readonly send: (values: V) => Promise<Answer>;
  /** Called after the form was reset. */
  readonly onSent: (answer: Answer) => void;
}

/**
 * A form that creates a resource, or sends anything else that has no version:
 *
 *     const state = useCreateForm({ initialValues, send: (body) => dataOf(api.POST(...)), onSent });
 *     <ApiFormFrame state={state} submitLabel="Create"><TextInput {...state.form.getInputProps('name')} /></ApiFormFrame>
 *
 * Fields are named as in the body, so that the faults that the API finds stand beside them.
 */
export function useCreateForm<V extends FormValues, Answer>(options: CreateOptions<V, Answer>): ApiForm<V> {
  const { initialValues, send, onSent } = options;
  const { form, failed, others, clearFaults } = useFormOfApi(initialValues, options);
  const sending = useMutation({
    mutationFn: send,
    onError: failed,
    onSuccess: (answer) => {
      form.setInitialValues(initialValues);
      form.reset();
      onSent(answer);
    },
  });
  const submit = form.onSubmit((values) => {
    clearFaults();
    sending.mutate(values);
  }, focusFirst(form));
  return {
    form,
    submit,
    isSending: sending.isPending,
    isDirty: () => form.isDirty(),
    isNew: true,
    error: sending.error,
    otherFaults: others,
    conflict: undefined,
    isOutdated: false,
  };
}

interface EditOptions<T, V extends FormValues> extends Options<V> {
  /** The resource as the query knows it. */
  readonly stored: Versioned<T>;
  readonly valuesOf: (resource: T) => V;
  /** Sends `If-Match: etag`. */
  readonly save: (values: V, etag: string) => Promise<Versioned<T>>;
  /** Reads the stored version, not a cached one. */
  readonly reload: () => Promise<Versioned<T>>;
  /** Puts the new version into the cache, shows a notice, closes the form. */
  readonly onSaved: (saved: Versioned<T>) => void;
}

/**
 * A form that changes a resource. Input is kept until the person saves or discards it: a newer version from the query fills
 * the form only while it has no input, and a 412 shows both versions. `stored` is the `Versioned` of a query.
 */
export function useEditForm<T, V extends FormValues>(options: EditOptions<T, V>): ApiForm<V> {
  const { stored, valuesOf, save, reload, onSaved } = options;
  const [base, setBase] = useState(stored);
  const [seenEtag, setSeenEtag] = useState(stored.etag);
  const [newer, setNewer] = useState<Versioned<T>>();
  const { form, failed, others, clearFaults } = useFormOfApi(valuesOf(stored.value), options);

  const show = (version: Versioned<T>, values: V = valuesOf(version.value)) => {
    setBase(version);
    form.setInitialValues(valuesOf(version.value));
    form.resetDirty(valuesOf(version.value));
    form.setValues(values);
  };

  const saving = useMutation({
    mutationFn: async ({ values, etag }: { readonly values: V; readonly etag: string }) => {
      try {
        return await save(values, etag);
      } catch (error) {
        if (isVersionMismatch(error)) setNewer(await reload());
        throw error;
      }
    },
    onError: failed,
    onSuccess: (saved, { values }) => {
      setNewer(undefined);
      // Keeps text that was typed during the request.
      if (isSame(form.getValues(), values)) show(saved);
      else show(saved, form.getValues());
      onSaved(saved);
    },
  });
  const send = (values: V, etag: string) => {
    clearFaults();
    saving.mutate({ values, etag });
  };

  // The query brought another version: it is shown at once in a form without input, otherwise after a save or discard.
  const isOutdated = stored.etag !== seenEtag && stored.etag !== base.etag;
  useEffect(() => {
    if (stored.etag === seenEtag) return;
    if (isOutdated && (form.isDirty() || saving.isPending || newer !== undefined)) return;
    if (isOutdated) show(stored);
    setSeenEtag(stored.etag);
  });

  const mine = form.getValues();
  const conflict: VersionConflict | undefined = newer && {
    differences: differencesOf(valuesOf(base.value), mine, valuesOf(newer.value)),
    saveMine: () => {
      const merged = mergedOf(valuesOf(base.value), mine, valuesOf(newer.value));
      show(newer, merged);
      setNewer(undefined);
      send(merged, newer.etag);
    },
    takeStored: () => {
      show(newer);
      setNewer(undefined);
      saving.reset();
    },
    dismiss: () => setNewer(undefined),
  };
  return {
    form,
    submit: form.onSubmit((values) => send(values, base.etag), focusFirst(form)),
    isSending: saving.isPending,
    isDirty: () => form.isDirty(),
    isNew: false,
    error: conflict === undefined ? saving.error : null,
    otherFaults: others,
    conflict,
    isOutdated,
  };
}

/** 412, or 409 if another change was committed between the check and the commit of this one. */
function isVersionMismatch(error: unknown): boolean {
  return (
    error instanceof ApiError &&
    (error.status === 412 || (error.status === 409 && error.body.reason === 'version'))
  );
}

function useFormOfApi<V extends FormValues>(initialValues: V, { validate, fieldOf }: Options<V>) {
  const name = useId().replaceAll(/[^\w-]|_/g, '-'); // Mantine takes letters, numbers and dashes
  const form = useForm<V>({ name, initialValues, ...(validate === undefined ? {} : { validate }) });
  const [others, setOthers] = useState<AssignedFaults['others']>([]);
  return {
    form,
    others,
    clearFaults: () => setOthers([]),
    failed: (error: Error) => {
      // A path with a quote belongs to no field, and would end the selector that Mantine makes of it.
      const hasField = (path: string) => !/["\\]/.test(path) && nodeOf(form, path) !== null;
      const assigned = assignFaults(error instanceof ApiError ? error.faults : [], hasField, fieldOf);
      setOthers(assigned.others);
      form.setErrors(assigned.fields);
      focusFirst(form)(assigned.fields);
    },
  };
}

/** Puts the focus on the first field with an error, in the order of the errors. */
function focusFirst<V extends FormValues>(form: UseFormReturnType<V>) {
  return (errors: Readonly<Record<string, unknown>>) => {
    const [first] = Object.keys(errors);
    if (first !== undefined) nodeOf(form, first)?.focus();
  };
}

/** The input of a field. One that is not made of `getInputProps` has its path as `data-path`, without the name of the form. */
function nodeOf<V extends FormValues>(form: UseFormReturnType<V>, path: string): HTMLElement | null {
  return form.getInputNode(path) ?? document.querySelector<HTMLElement>(`[data-path="${path}"]`);
}
