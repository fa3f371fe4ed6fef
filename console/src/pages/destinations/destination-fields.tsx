import { Accordion, NumberInput, Select, Stack, TextInput } from '@mantine/core';
import { DestinationSelect } from '../../shared/destination-select.tsx';
import { EnvironmentsField } from '../../shared/forms/environments-field.tsx';
import type { ApiForm } from '../../shared/forms/use-api-form.ts';
import { type DestinationValues, formFieldsOf } from './destination-values.ts';
import type { Draft } from './settings/drafts.ts';
import type { Field } from './settings/fields.ts';
import { SettingInput } from './settings/setting-input.tsx';

interface Props {
  readonly state: ApiForm<DestinationValues>;
  readonly root: Field;
  readonly isWarehouse: boolean;
}

/** The fields of a destination: its settings by their schema, and the fields that all destinations have. */
export function DestinationFields({ state: { form, isSending }, root, isWarehouse }: Props) {
  const values = form.getValues();
  const access = {
    errorOf: (path: string) => form.errors[path],
    clearError: (path: string) => form.clearFieldError(path),
    disabled: isSending,
  };
  return (
    <Stack>
      <TextInput
        label="Name"
        description="As it is shown in lists and rules."
        withAsterisk
        maxLength={200}
        disabled={isSending}
        {...form.getInputProps('name')}
      />
      {formFieldsOf(root).map(({ key, field }) => (
        <SettingInput
          key={key}
          field={field}
          path={key}
          draft={values[key]}
          onChange={(draft: Draft) => form.setFieldValue(key, draft)}
          access={access}
        />
      ))}
      <Accordion variant="contained">
        <Accordion.Item value="more">
          <Accordion.Control>
            {isWarehouse ? 'Environments and alerts' : 'Environments, limits and alerts'}
          </Accordion.Control>
          <Accordion.Panel>
            <Stack>
              <EnvironmentsField
                description={`Events of other environments are never ${isWarehouse ? 'loaded' : 'delivered'} here, whatever the rules say.`}
                disabled={isSending}
                {...form.getInputProps('environments')}
              />
              {!isWarehouse && (
                <>
                  <NumberInput
                    label="Requests at a time"
                    description="At most, of the whole installation. Empty: as the operator has set it."
                    min={1}
                    max={100}
                    allowDecimal={false}
                    disabled={isSending}
                    {...form.getInputProps('max_concurrency')}
                  />
                  <NumberInput
                    label="Requests a second"
                    description="At most, of the whole installation. Empty: as the operator has set it."
                    max={10_000}
                    disabled={isSending}
                    {...form.getInputProps('rate_limit_per_second')}
                  />
                </>
              )}
              <Select
                label="Alerts"
                description="Sent when it becomes unhealthy, and when it recovers."
                allowDeselect={false}
                data={[
                  { value: 'default', label: 'As the workspace says' },
                  { value: 'own', label: 'To an address or destination of its own' },
                  { value: 'none', label: 'None' },
                ]}
                disabled={isSending}
                {...form.getInputProps('alerts')}
              />
              {values.alerts === 'own' && (
                <>
                  <TextInput
                    label="E-mail address"
                    type="email"
                    disabled={isSending}
                    {...form.getInputProps('alerts_email')}
                  />
                  <DestinationSelect
                    label="Destination of alerts"
                    description="Alerts go there as track events."
                    clearable
                    disabled={isSending}
                    {...form.getInputProps('alerts_destination_id')}
                  />
                </>
              )}
            </Stack>
          </Accordion.Panel>
        </Accordion.Item>
      </Accordion>
    </Stack>
  );
}
