import { Alert, Button, Skeleton, Text } from '@mantine/core';
import { lazy, Suspense } from 'react';
import type { Versioned } from '../../../api/client.ts';
import type { ApiForm } from '../../../shared/forms/use-api-form.ts';
import { type DestinationValues, previewSettingsOf } from '../destination-values.ts';
import type { Destination, DestinationTypeDetails } from '../queries.ts';
import type { Field, JsonObject } from '../settings/fields.ts';
import { withSubscriptions } from './earlier-form.ts';

const MappingsSection = lazy(() =>
  import('./mappings-section.tsx').then(({ MappingsSection }) => ({ default: MappingsSection })),
);

interface Props {
  readonly workspaceId: string;
  readonly state: ApiForm<DestinationValues>;
  readonly root: Field;
  readonly type: DestinationTypeDetails;
  /** Absent for one that is created. */
  readonly stored?: Versioned<Destination>;
}

/** The mappings in the form of a destination; none where its type has no actions. */
export function Mappings({ workspaceId, state, root, type, stored }: Props) {
  const { form, error, isSending } = state;
  const values = form.getValues();
  if (type.actions.length === 0) return null;
  if (values.subscriptions === undefined)
    return (
      <Alert color="blue" title="Mappings in the form of release 0.2.0">
        <Text size="sm" mb="sm">
          The presets and actions above say what is sent. Written out as mappings, each field can be changed;
          what is sent stays the same until you change it.
        </Text>
        <Button
          variant="default"
          disabled={isSending}
          onClick={() =>
            form.setValues(withSubscriptions(values, type.default_subscriptions as readonly JsonObject[]))
          }
        >
          Write them out
        </Button>
      </Alert>
    );
  return (
    <Suspense fallback={<Skeleton height={240} role="status" aria-label="Loading" aria-busy="true" />}>
      <MappingsSection
        workspaceId={workspaceId}
        type={type}
        drafts={values.subscriptions}
        onChange={(subscriptions) => form.setFieldValue('subscriptions', subscriptions)}
        settings={previewSettingsOf(root, values)}
        error={error}
        disabled={isSending}
        {...(stored && {
          stored: { id: stored.value.id, etag: stored.etag, isChanged: state.isDirty() },
        })}
      />
    </Suspense>
  );
}
