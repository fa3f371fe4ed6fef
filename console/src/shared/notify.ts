import { notifications } from '@mantine/notifications';

/** Says that a change was made. Failures are shown where they happened instead. */
export function notifyDone(message: string): void {
  notifications.show({ color: 'teal', message });
}
