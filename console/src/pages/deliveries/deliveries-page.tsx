import { Page } from '../../shared/page.tsx';

export function DeliveriesPage() {
  return <Page title="Deliveries">{null}</Page>;
}
