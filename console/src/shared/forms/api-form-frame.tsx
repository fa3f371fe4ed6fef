import { Alert, Button, Code, Group, List, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { ApiError } from '../../api/errors.ts';
import { ErrorAlert } from '../error-alert.tsx';
import { LeaveGuard } from './leave-guard.tsx';
import type { ApiForm, FormValues } from './use-api-form.ts';
import { VersionConflictDialog } from './version-conflict-dialog.tsx';

interface Props<V extends FormValues> {
  readonly state: ApiForm<V>;
  readonly children: ReactNode;
  /** `Create source`, `Save`. */
  readonly submitLabel: string;
  readonly onCancel?: () => void;
  /** Names of fields for the comparison of versions, where the key is not clear enough. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Renders the values of a field for the comparison, for example of code. */
  readonly renderValue?: (field: string, value: unknown) => ReactNode;
  /** Whether the form is gone when the URL names another `tab`. Default: no. */
  readonly isOfTab?: boolean;
  /** More buttons, at the left of those of the form. */
  readonly actions?: ReactNode;
}

/** The parts that all forms over the API share: errors, both versions on a conflict, buttons, the guard of unsaved input. */
export function ApiFormFrame<V extends FormValues>({
  state,
  children,
  submitLabel,
  onCancel,
  labels,
  renderValue,
  isOfTab = false,
  actions,
}: Props<V>) {
  const { isSending, isNew, error, conflict, isOutdated } = state;
  return (
    <form noValidate onSubmit={state.submit}>
      <Stack>
        {children}
        {error !== null && <Failure state={state} error={error} />}
        {isOutdated && conflict === undefined && state.isDirty() && (
          <Alert color="yellow" title="Somebody saved another version">
            <Text size="sm">
              What you typed is kept. When you save, both versions are shown and you choose.
            </Text>
          </Alert>
        )}
        <Group justify="flex-end" gap="xs">
          {actions}
          {onCancel !== undefined && (
            <Button variant="default" onClick={onCancel}>
              Cancel
            </Button>
          )}
          <Button type="submit" loading={isSending} disabled={!isNew && !state.isDirty()}>
            {submitLabel}
          </Button>
        </Group>
      </Stack>
      <LeaveGuard isDirty={state.isDirty} isOfTab={isOfTab} />
      {conflict !== undefined && (
        <VersionConflictDialog
          conflict={conflict}
          {...(labels === undefined ? {} : { labels })}
          {...(renderValue === undefined ? {} : { renderValue })}
        />
      )}
    </form>
  );
}

function Failure<V extends FormValues>({
  state: { form, otherFaults },
  error,
}: {
  readonly state: ApiForm<V>;
  readonly error: Error;
}) {
  const marked = Object.keys(form.errors).length;
  const hasFaults = error instanceof ApiError && error.faults.length > 0;
  // The reason of a conflict concerns the whole, also where it marks a field.
  if (!hasFaults || error.status === 409) return <ErrorAlert error={error} />;
  if (marked === 0 && otherFaults.length === 0) return null; // each marked field was edited since
  return (
    <Alert color="red" role="alert" title="Not saved">
      {marked > 0 && (
        <Text size="sm">
          {marked === 1 ? 'The marked field needs a change.' : `${marked} marked fields need a change.`}
        </Text>
      )}
      {otherFaults.length > 0 && (
        <List size="sm">
          {otherFaults.map(({ path, message }) => (
            <List.Item key={`${path} ${message}`}>
              <Code>{path}</Code> {message}
            </List.Item>
          ))}
        </List>
      )}
    </Alert>
  );
}
